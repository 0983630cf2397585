"""Text in, token ids out: corpora, tokenizers, token files, and the order in which they are read."""
