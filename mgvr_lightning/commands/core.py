"""`python -m mgvr_lightning core`: the CORE suite on a checkpoint or on a model of `transformers`."""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from jsonargparse import Namespace
from jsonargparse.typing import PositiveInt
from torch import Tensor
from tqdm import tqdm

from mgvr_lightning.errors import InputError
from mgvr_lightning.evaluation.bundle import read_tasks
from mgvr_lightning.evaluation.checkpoint import load_checkpoint
from mgvr_lightning.evaluation.hugging_face import load_hugging_face
from mgvr_lightning.evaluation.language_model import LanguageModel
from mgvr_lightning.evaluation.report import as_csv, as_table
from mgvr_lightning.evaluation.suite import Result, Share, run_task
from mgvr_lightning.parser import Parser


def main(args: list[str]) -> None:
    """Evaluates, prints a table on standard output, and writes CSV.

    Under torchrun the questions are shared out over its processes.

    Args:
        args: the arguments behind `core`.

    Raises:
        InputError: a file is missing or malformed, or an option doesn't fit.
    """
    config = _parser().parse_args(args)
    if (config.checkpoint is None) == (config.hf is None):
        raise InputError("core: expected one of --checkpoint and --hf.")
    if config.context == 1:
        raise InputError("context: 1 token leaves nothing to predict. Expected 2 or more.")
    tasks = read_tasks(Path(config.bundle), config.tasks, config.only)
    counts = [len(task.questions[: config.limit]) for task in tasks]  # refuses bad rows early
    device = _device(config.device)
    share = _join(device)
    try:
        model = _model(config, device)
        with tqdm(total=sum(counts), unit="question", dynamic_ncols=True, disable=share.rank > 0) as bar:
            results: list[Result] = []
            for task in tasks:
                bar.set_description(task.label)
                results.append(
                    run_task(
                        model,
                        task,
                        share,
                        config.limit,
                        config.seed,
                        config.batch_size,
                        lambda count: bar.update(min(count * share.ranks, bar.total - bar.n)),
                    )
                )
        if share.rank == 0:
            _write(results, model, config)
    finally:
        if share.ranks > 1:
            dist.destroy_process_group()


def _model(config: Namespace, device: torch.device) -> LanguageModel:
    if config.hf is not None:
        return load_hugging_face(config.hf, device, config.context)
    tokenizer = None if config.tokenizer is None else Path(config.tokenizer)
    model = load_checkpoint(Path(config.checkpoint), device, tokenizer)
    model.context = config.context or model.context
    return model


def _write(results: list[Result], model: LanguageModel, config: Namespace) -> None:
    sys.stdout.write(f"{model.name}, context {model.context}\n{as_table(results)}")
    if config.output is not None:
        path = Path(config.output)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(as_csv(results), encoding="utf-8")
        sys.stdout.write(f"Written to {path}\n")


def _device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"device: {name!r} can't be used ({error}).") from error
    if name == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    return device


def _join(device: torch.device) -> Share:
    """Meets the other processes of torchrun."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return Share()
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")

    def add(sums: Tensor) -> Tensor:
        dist.all_reduce(sums)
        return sums

    return Share(dist.get_rank(), dist.get_world_size(), add)


def _parser() -> Parser:
    parser = Parser(
        prog="mgvr_lightning core",
        description="The CORE suite of DataComp-LM (arXiv 2406.11794): few-shot questions, and the mean of "
        "the accuracies centred on random guesses.",
        default_env=True,
        env_prefix="MGVR_CORE",
    )
    parser.add_argument("--bundle", type=str, required=True, help="folder of the evaluation bundle")
    parser.add_argument("--tasks", type=str, default="core.yaml", help="name of the tasks file in the bundle")
    parser.add_argument("--only", type=list[str] | None, default=None, help="labels of tasks; null for all")
    parser.add_argument("--checkpoint", type=str | None, default=None, help="a checkpoint of this project")
    parser.add_argument("--hf", type=str | None, default=None, help="a model of transformers, name or folder")
    parser.add_argument(
        "--tokenizer",
        type=str | None,
        default=None,
        help="tokenizer.json of the checkpoint; null for that of its run's data",
    )
    parser.add_argument(
        "--limit", type=PositiveInt | None, default=None, help="the most questions of a task; null for all"
    )
    parser.add_argument("--seed", type=int, default=1234, help="of the examples shown before a question")
    parser.add_argument(
        "--context",
        type=PositiveInt | None,
        default=None,
        help="the most tokens of a question; longer ones lose their beginnings. Null for the model's own",
    )
    parser.add_argument("--batch_size", type=PositiveInt, default=8, help="sequences run at once")
    parser.add_argument("--device", type=str, default="auto", help="cpu, cuda, cuda:1, mps, or auto")
    parser.add_argument("--output", type=str | None, default=None, help="CSV file to write; null for none")
    return parser
