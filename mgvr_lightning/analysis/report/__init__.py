"""Reports: what a study or a set of runs shows, as one HTML page and as Markdown."""
