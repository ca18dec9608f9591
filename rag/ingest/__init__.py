"""Reading documents: pages, regions, running text and the crops of figures and tables."""
