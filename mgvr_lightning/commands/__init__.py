"""Commands beside those of LightningCLI, one a module: each has `main(args)`."""
