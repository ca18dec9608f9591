# The page with the demo corpus inside; `docker build -t fusebox . && docker run -p 7860:7860 fusebox`.
FROM python:3.11-slim-bookworm

# Tesseract reads scans; the layout model's OpenCV links to the other two.
RUN apt-get update && apt-get install -y --no-install-recommends tesseract-ocr libgl1 libglib2.0-0 && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home --uid 1000 fusebox && install -d -o fusebox -g fusebox /home/fusebox/app
WORKDIR /home/fusebox/app

COPY requirements.txt .
# --build-arg LIGHT=1 leaves torch and CLIP out.
ARG LIGHT=
RUN if [ -n "$LIGHT" ]; then sed -i -E '/^(torch|torchvision|open_clip_torch)==/d' requirements.txt; fi \
 && pip install --no-cache-dir -r requirements.txt

COPY --chown=fusebox . .
USER fusebox

ENV FUSEBOX_HOST=0.0.0.0 \
    FUSEBOX_PORT=7860 \
    GRADIO_ANALYTICS_ENABLED=False \
    PYTHONUNBUFFERED=1
EXPOSE 7860
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
  CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen(f'http://127.0.0.1:{os.environ[\"FUSEBOX_PORT\"]}/', timeout=4)"]
CMD ["python", "app.py"]
