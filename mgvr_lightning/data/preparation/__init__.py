"""From text to token files: tokenizer, parallel encoding, joining."""
