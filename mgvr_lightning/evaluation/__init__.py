"""The CORE suite of DataComp-LM (arXiv 2406.11794), on this project's checkpoints and on others' models."""
