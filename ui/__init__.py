"""Everything that is drawn. Imports ``rag``, never the reverse."""
