"""Where text comes from: corpora, cut into pieces that are read apart."""
