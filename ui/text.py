"""The words on the page that are longer than a label."""

from __future__ import annotations

from dataclasses import dataclass

from rag.types import Branch

TITLE = "Fusebox"

BRANCHES: dict[Branch, tuple[str, str]] = {
    "text": ("Text", "finds the passages closest to the question. Always on."),
    "graph": ("Graph", "adds facts about the entities in the question, from the pages the text branch found."),
    "visual": ("Visual", "ranks figures and tables and sends pixels, captions or nothing, whichever the gate allows."),
}

SWITCHES: dict[Branch, str] = {"graph": "Knowledge graph", "visual": "Figures & tables"}

GRAPH_NOTES: dict[str, str] = {
    "provenance": "facts of the retrieved pages",
    "open": "facts from everywhere",
    "bridge": "facts, and bridged passages too",
}
"""Graph mode -> what the switch adds, below its name."""

SWITCH_NOTES: dict[Branch, str] = {"graph": GRAPH_NOTES["provenance"], "visual": "by caption and read-off text"}

EMPTY = (
    "Ask something about the corpus ({documents}), or pick an example: one click asks it. You get the answer, everything it rests "
    "on, and what each kind of evidence cost; one click more, “Did it help?”, tells whether graph and figures were worth it."
)

WAITING: dict[Branch, str] = {
    "text": "The passages closest to your question will be listed here, with the words that matched and the words the "
    "answer took.",
    "graph": "The entities of your question, the facts that were sent and the facts that were dropped, with reasons, "
    "will be drawn here.",
    "visual": "The best figures and tables will be listed here: ranks, what was sent and in which form.",
}

OFF: dict[Branch, str] = {
    "graph": "Off: switch Knowledge graph on to see which facts it would add to this prompt, and ask again.",
    "visual": "Off: switch Figures & tables on to see which crops it would add to this prompt, and ask again.",
}

NOTHING: dict[Branch, str] = {
    "text": "No chunk matched. The corpus holds no text, or the question no word.",
    "graph": "No entity of the graph stands in this question, so there is no fact to send. Name one: a data set, a "
    "method, a drug.",
    "visual": "No crop was found.",
}

NO_FACT = "The question names these entities, but none of their facts may be sent; the reasons are below."

GRAPH_MODES: dict[str, str] = {
    "provenance": "retrieved pages",
    "open": "everywhere",
    "bridge": "bridged pages too",
}
"""Graph mode -> where its facts may come from, as the page says it."""

BRIDGES = "Passages that a walk over the graph added, from the question’s entities and the text hits, of pages that hold no text hit."

MODE_SET = "The next question takes its facts from: {mode}. Ask again to see the difference."

NO_SENTENCE = "No sentence of its passage shares a word with this fact; the whole passage follows."
CLOSEST_SENTENCE = "The fact does not stand there word for word; this is the sentence closest to it."

NO_CAPTION = "no caption on the page"

ABSTAINED = "The evidence does not answer this."
TRY_SWITCH = (
    "This is an abstention, not a failure. To see whether other evidence helps, switch {switches} on and ask again."
)
TRY_MORE = (
    "This is an abstention, not a failure. To look further, raise “Chunks” in Retrieval settings or name the thing "
    "you mean."
)

PARTIAL: dict[str, str] = {
    "stopped": "You stopped this answer; what stands here is all there is of it, and its counts are estimates.",
    "cut": "The generator reached its token limit, so the end is missing.",
    "filtered": "The provider's content filter cut this answer, so the end is missing.",
}

EMPTY_END: dict[str, str] = {
    "stopped": "You stopped before a word was written; the counts are estimates.",
    "cut": "The generator reached its token limit before any answer came.",
    "filtered": "The provider's content filter withheld the answer.",
}

BEFORE_ERROR = "What had been written before the failure:"
BUG = "Fusebox itself failed on this question; its log says where. Ask again, or report it with the log's last lines."

ERROR_UNKNOWN = "The generator failed without saying why. Ask again, or choose another generator."

EMBEDDED_COST = "nothing leaves this machine"

ELSEWHERE = "this prompt on other generators"

SPLIT_EMPTY = "The prompt's split by evidence appears here."

STOP = "Stop"
STOPPING = "Stopping …"

WARMING = "How many patients are in the table?"

NO_KEY_NEEDED = "This generator needs no key. Choose one that needs one to enter yours."
KEY_RULE = "Kept in this session's memory only, sent to nobody but the provider, and forgotten when you close the page."

NO_CLIP_INDEX = "Ranked by caption and read-off text, without CLIP."

PRICES = (
    "Prices are USD per million tokens, as read on the day given. An operator who knows newer ones puts them, and servers "
    "of their own, into the TOML file that FUSEBOX_ENDPOINTS names. An estimate (≈) counts the prompt with the embedded "
    "tokenizer and adds what the provider's rule gives for an image; after the call the provider's own count stands beside it."
)

SEARCHED_IN_PARTS = "Searched part by part, the best of each first:"
BARS = "Bar: the ranker's score against its best one in this list."

NO_BOXES = "This answer used nothing on this page."
COMPARED = "compared with the previous ask"
NO_PREVIOUS = "This is the first ask of this session; ask another question, or the same one with another system."

EXPLAIN = "Explanation"
COPY = "Copy"

NO_CROP = "This corpus has no such figure or table; open one from the list."
MATCHED = "matched"
NO_WORD = "matched by meaning only"
NO_WORD_WHY = "No word of the question stands in its caption or read-off text; it ranks by nearness of meaning alone."
STAND_IN = "no caption; the start of its read-off text"
OCCLUDE = "Show what CLIP looked at"
OCCLUSION = (
    "Cosine of question and crop: {cosine}. The stronger a part is coloured, the more the cosine loses when a grey patch hides it; most, "
    "{drop}, in row {row} of {rows}, column {column} of {columns}. CLIP sees the middle square of a crop: what lies beyond it stays clear."
)

CITED_WORDS = "words the answer took"
OTHER_PAGES = "Sent too, from other pages:"
NO_IMAGE = "This corpus keeps no picture of this page; its text follows."

ACCESS: dict[str, tuple[str, str]] = {
    "embedded": ("Embedded", "runs in this process"),
    "open": ("Open weights", "weights are published; runs at a provider or on your server"),
    "closed": ("Closed", "runs at its provider"),
    "diagnostic": ("Diagnostic", "costs more; the study used it to diagnose failures, not to compare"),
}

ABOUT = (
    "Fusebox shows, question by question, when text, knowledge-graph and visual evidence help a retrieval-augmented "
    "system answer questions "
    "about documents, and when they only cost tokens. Every ranking is the same whichever switches are on: a switch "
    "decides only what "
    "enters the prompt, so two answers differ by their evidence and by nothing else."
)


@dataclass(frozen=True, slots=True)
class Example:
    """A question to try; ``kind`` says what it needs."""

    kind: str
    label: str
    question: str


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "demo": (
        Example(
            "text",
            "size of a data set",
            "How many subjects diagnosed with monoclonal gammopathy of undetermined significance does the mgus2 data "
            "set "
            "contain?",
        ),
        Example(
            "two facts",
            "two sizes",
            "How many subjects does the mgus2 data set contain, and how many pregnant women does the abortion data set "
            "hold?",
        ),
        Example("pixels", "p-value in a tree", "What is the p-value of the R_income split in the happiness tree?"),
        Example(
            "table",
            "smokers",
            "How many cigarettes a day made somebody a medium smoker for Schairer and Schöniger?",
        ),
        Example(
            "caption",
            "an outlier",
            "How much blood did the one vaginal delivery lose that is left out of the distribution of measured blood "
            "loss?",
        ),
        Example("graph", "on steroids", "How many of the children in the gamma interferon trial were on steroids?"),
        Example("unanswerable", "a price", "What does one dose of the BCG vaccine cost?"),
    ),
}
"""Corpus name -> examples, one or two per question type. Each is in ``assets/questions``."""

UNCITED = "This answer cites none of the evidence, so nothing here shows where it comes from."

HISTORY = "Asked in this session"
LOAD_TRACE = "Load a trace …"
COPY_LINK = "Copy a link to this question"
TRACE_LOADED = (
    "Loaded from a file: what stands below was answered elsewhere and may have been written by anybody. Ask again to see what "
    "is answered here."
)
LINK_FOLLOWED = "Question and settings come from the link you opened; press Ask when you like."

ANSWERED_WITHOUT = {
    False: "Answered without {tags}; their places stayed empty.",
    True: "Answered without {tags}; the next-ranked moved up.",
}
"""By whether the next-ranked moved up."""

WHATIF_PLACES = {False: "places stayed empty", True: "next-ranked moved up"}
WHATIF_UNFINISHED = "There is no finished answer on the page to ask again; ask, and let it end."
WHATIF_NOTHING = "Tick what to leave out first."

VERDICTS = {
    "failed": "The call failed, so nothing can be said about what was left out.",
    "stopped": "You stopped it, so the two are not compared.",
    "cut": "The new answer is not whole, so the two are not compared.",
    "before": "The answer before was not whole, so the two are not compared.",
    "abstains": "Now it abstains: the rest of the evidence does not answer the question.",
    "answers": "Now it answers; it abstained before.",
    "changed": "The answer changed: {share:.0%} of the words differ.",
    "cites": "The same words, but cited from {tags}.",
    "unchanged": "The answer stayed the same.",
}
"""What became of an answer when it was asked for again with other evidence."""

INFLUENCE = "Leave each of the {items} out in turn, and see whether the answer changes."
INFLUENCE_PRICE = "{calls} of {label}, {tokens} input tokens in all, {price}."
INFLUENCE_BAR = (
    "Bar: share of words that differ from the answer above, from 0 (the same) to 1 (none in common); tags don't count."
)
INFLUENCE_NONE = (
    "No single item was needed: what the answer says stands more than once in the prompt, or nowhere. Leave several out together to "
    "find out."
)
INFLUENCE_PAID = "A provider's model may word the same answer differently from call to call; read the new answers."
OUTCOMES = {
    "changed": "changed",
    "unchanged": "unchanged",
    "abstains": "now abstains",
    "answers": "now answers",
    "failed": "call failed",
}

HELPED = "Did it help?"
HELPED_OFFER = "Did graph and figures help here, or only cost tokens? Four answers, with and without each, tell: by the {reader}, free."
HELPED_ASKING = "Asking with and without …"
HELPED_REFERENCE = "reference"
HELPED_HEADLINES = {
    "unknown": "This can't be said: not every answer came in whole.",
    "righted": "It helped: text alone gets this wrong.",
    "wronged": "It did harm: text alone gets this right.",
    "mixed": "It helped in one way and did harm in another.",
    "enough": "Text alone was enough: all four answers are right.",
    "declined": "Nothing here answers this, and all four rightly say so.",
    "all wrong": "Nothing helped: all four answers are wrong.",
    "changed": "It changed the answer; the question set has no reference to tell which one is right.",
    "same": "It made no difference: all four answers are the same.",
}
"""What graph, figures and tables did together, against the text alone."""

HELPED_EFFECTS = {
    "righted": "{name} made the answer right{where}, for {took}.",
    "wronged": "{name} made the answer wrong{where}, for {took}.",
    "changed": "{name} changed the answer{where}, for {took}.",
    "same": "{name} cost {took} and changed nothing.",
    "unknown": "{name} cost {took}; what that did can't be said.",
}
HELPED_ONLY = {True: " (only without {other})", False: " (only together with {other})"}
"""By whether the effect was there without the other branch."""

HELPED_NOTHING_SENT = "{name} found nothing to send, so it cost no token and changed nothing."

COMPARE_EMPTY = (
    "Choose a question of the corpus's question set, or type one of your own. Every system answers it at the same time, and each cell "
    "says what it added to the first and what that cost."
)
COMPARE_ESTIMATE = "{answers} ≈ {about} in all, at most {limit}. Nothing has been sent: press the button again to ask."
COMPARE_SETTINGS = "Asked with the settings on Explore: {settings}."
COMPARE_ASK = "Compare"
COMPARE_ASK_PAID = "Ask for ≈ {about}"
COMPARE_ASK_UNKNOWN = "Ask at unknown cost"
PICKER = "Question set: {questions} with reference answers"

CELL_STATES: dict[str, str] = {
    "waiting": "waiting for its turn …",
    "reading": "reading …",
    "streaming": "writing …",
    "answered": "",
    "abstained": "no answer in the evidence",
    "stopped": "stopped",
    "cut": "cut at the token limit",
    "filtered": "cut by the filter",
    "error": "failed",
}

ANSWER_SAME = "Says the same as {baseline}."
ANSWER_CHANGED = "Says something else than {baseline}."
SAME_EVIDENCE = "{items} as in {baseline}"
EVIDENCE_ABOVE = "Same evidence as for {generator}"
AS_PIXELS = ", crops as pixels"
AS_WORDS = ", crops in words"
NOTHING_ADDED = "Nothing was added to its prompt."
GOLD_FOUND = "gold {kind}: rank {rank}, {sent}"
GOLD_MISSED = "gold {kind}: missed, not among {listed}"
GOLD_BRIDGED = ", but brought in by the graph as {tag}"
GOLD_OFF = "gold {kind}: this system has no figures and tables"

OWN_CORPUS = "Yours: {name}"
OWN_NOTE = "Only this browser window sees it. It is deleted when you close or reload the page, and after an hour at the latest."
OWN_REMOVE = "Delete it now"
CLIP_MISSING = "The CLIP ranker could rank these crops by their pixels, but they are not indexed for it yet."
CLIP_BUILD = "Index {crops} for CLIP"
CLIP_WITHOUT = "Crops are ranked without CLIP"
CLIP_COMMAND = (
    "Its weights are not on this machine, or an index may not be built from the page. The operator's command: "
    "python -m rag corpus FOLDER --add-clip"
)
INDEX_AGAIN = "Index it again"
INDEX_BUSY = "Another index is being built; try again when it is done."
INDEX_STARTS = "Starting …"
INDEX_DONE = "The index is there; the next question uses it."
INDEX_STOPPED = "Stopped; nothing was changed."

SCOPES = {"chunks": "Passages", "crops": "Figures and tables", "pages": "Page names"}
FOUND = {"chunks": "Passages found", "crops": "Figures and tables found", "pages": "Pages found"}
CORPUS_SEARCH = "Search this corpus …"
ALL_DOCUMENTS = "All documents"
ALL_PAGES = "All pages"
CORPUS_OPENS = "Opening …"
NOT_FOUND = "Nothing was found. Try other words, or look through all pages."
NO_SUCH_PAGE = "This corpus has no such page; open one from the list."
NONE_ON_PAGE = "None on this page."

UPLOAD = "Add your own documents"
UPLOAD_CHOOSE = "Choose files or drop them here"
UPLOAD_KINDS = "PDF, PNG, JPEG, TIFF."
UPLOAD_RULE = (
    "They are read on this server and sent to no one else, unless you ask a generator that runs elsewhere. Only this browser "
    "window sees them; they are deleted when you close or reload the page, and after an hour at the latest."
)
CONTINUES = "Continues"
SCANS = "Scans are read as"
SCANS_RULE = "Choose what your scans are written in, {most} languages at most: each one takes its time."
SCANS_TOO_MANY = "At most {most} languages are read at a time; choose fewer."
NO_SCANS = "Scans can't be read here, only PDFs with a text layer."
LANGUAGES = {
    "ara": "Arabic", "ces": "Czech", "chi_sim": "Chinese (simplified)", "chi_tra": "Chinese (traditional)", "dan": "Danish",
    "deu": "German", "ell": "Greek", "eng": "English", "fin": "Finnish", "fra": "French", "heb": "Hebrew", "hin": "Hindi",
    "hun": "Hungarian", "ita": "Italian", "jpn": "Japanese", "kor": "Korean", "lat": "Latin", "nld": "Dutch", "nor": "Norwegian",
    "pol": "Polish", "por": "Portuguese", "ron": "Romanian", "rus": "Russian", "spa": "Spanish", "swe": "Swedish", "tur": "Turkish",
    "ukr": "Ukrainian", "vie": "Vietnamese",
}  # fmt: skip
"""Tesseract's name of a language -> ours; the others stand for themselves."""
UPLOAD_OFF = "The operator of this page takes no documents. Run Fusebox on your own machine to add yours."
BUILDING = "Reading your documents"
BUILD_STARTS = "starting …"
BUILD_WAITING = "Your documents are here. {ahead} first; this starts by itself."
BUILD_FULL = "Too many visitors are waiting for their documents; try again in a few minutes."
BUILD_RUNNING = "Your documents are being read already; stop that first, or wait."
BUILD_STOPPED = "Stopped. Your documents were deleted."
BUILD_BUG = "Fusebox itself failed on these documents; its log says where. They were deleted. Try others, or report it."
BUILT = "Your documents are a corpus now"
BUILT_NEXT = "Explore and Compare use them from now on."
BUILT_ASK = "Ask a question about them"
PER_PAGE = "Page by page"
OWN_REMOVED = "Your documents were deleted."

ABLATION_NOTHING = (
    "Nothing is chosen that could be compared: choose the study's figures or a complete run, or take filters away."
)
ABLATION_READING = "Reading the results …"
ABLATION_ANY_JUDGE = "Without a judge"
ABLATION_LEGEND = (
    "The study's figures are hatched or open, those of runs filled. Intervals are 95% bootstrap intervals; those of the study follow from "
    "its shares and n. Click a cell or bar of a run for its questions."
)
ABLATION_TIMES = (
    "Medians over the question type with the most questions; what a run measures is this machine and its line."
)
ABLATION_RUNNING = "In no comparison until it is complete."
ABLATION_INCOMPLETE = "Kept out of all comparisons: calls that failed or were not made are no wrong answers."
ABLATION_PUBLISHED = "The study publishes shares and not its single answers; click a cell of a run."
ABLATION_START = "Start"
ABLATION_START_PAID = "Start for ≈ {about}"
ABLATION_ESTIMATED = "{line} Nothing has been asked yet: press the button again to start."
ABLATION_ESTIMATING = "Working out from real prompts what this would cost …"
ABLATION_OVER_CAP = "Not started: {line} That is above the cap of ${cap:.2f}; raise the cap, or choose less."
ABLATION_NO_PRICE = "Not started: {line} Name their prices in the file of FUSEBOX_ENDPOINTS, or choose others."
ABLATION_BUSY = "A run is going on already; stop it, or wait until it is done."
ABLATION_CLOSED = "Runs can't be started here: the operator switched them off (FUSEBOX_EVALUATE)."
ABLATION_OWN = (
    "A run is kept for everybody who opens this page, so it is never about your own documents; choose another corpus at the top, or run "
    "python -m rag evaluate."
)
ABLATION_JUDGES = "Judges (each kind in its own figures)"
ABLATION_NO_JUDGE = "There is no judge; choose one: the offline judges ask nobody."
ABLATION_JUDGES_MORE = "Language models judge once their keys are set: {names}."
ABLATION_UNJUDGED = "Some answers are not judged yet."
ABLATION_DONE = "{label} is complete: {done:,} results, shown below."
ABLATION_LEFT = (
    "{label} is incomplete: {done:,} of {planned:,} done, {failed:,} failed. Resume it in the list above. {why}"
)

FROM_FILE = "from a file"
UNASKED = "This trace ends with its prompt, and no generator was asked. Press Ask to have the question answered."
NOT_ON_PAGE = (
    "Asked again, this question has the usual {names}, for which this page has no control; the command line has."
)
NOT_FOLLOWED = "Not followed from the link: {name} has no control on this page; the command line has it."
