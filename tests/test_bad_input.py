import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml
from documents import KEPT, texts, write_documents
from helpers import CONFIGS
from runs import arguments, fit, home

from mgvr_lightning.__main__ import main

TRANSFORMER = str(CONFIGS / "transformer.yaml")
SMALL = ["--config", "small.yaml"]
BYTES = {
    "malformed.jsonl": b'{"text": "a b c"}\n{"text": "d e\n',
    "null.jsonl": b'{"text": "a b c"}\n{"text": null}\n',
    "latin.jsonl": b'{"text": "caf\xe9"}\n',
    "empty.jsonl": b"",
    "blank.jsonl": b'{"text": ""}\n',
    "empty.yaml": b"",
    "list.yaml": b"- model\n- data\n",
    "tab.yaml": b"model:\n\tseed: 1\n",
    "key.yaml": b"trainer:\n  max_step: 3\n",
    "top.yaml": b"trainer: {max_steps: 3}\nmodle:\n  seed: 1\n",
    "class.yaml": b"model:\n  values:\n    gate: {class_path: ScalrGate}\n",
    "argument.yaml": b"model:\n  values:\n    gate:\n      class_path: ScalarGate\n"
    b"      init_args: {strat: 1.0, learned: false}\n",
    "heads.yaml": b"model: {network: {width: 16, heads: 3}}\n",
    "type.yaml": b"trainer: {max_steps: many}\n",
}


@cache
def _folder() -> Path:
    KEPT.append(TemporaryDirectory(prefix="mgvr-bad-"))
    folder = Path(KEPT[-1].name)
    write_documents(folder / "docs.jsonl", texts())
    write_documents(folder / "short.jsonl", ["abc", "def", "ghi", "jkl"] + [f"{i}" for i in range(60)])
    _parquet(folder / "other.parquet")
    for name, content in BYTES.items():
        (folder / name).write_bytes(content)
    settings = yaml.safe_load((home() / "small.yaml").read_text(encoding="utf-8"))
    settings["data"]["init_args"]["corpus"]["init_args"]["paths"] = ["docs.jsonl"]
    (folder / "small.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    fit(folder, *SMALL, "--trainer.max_steps", "1", name="transformer")
    return folder


def _parquet(path: Path) -> None:
    import datasets

    datasets.Dataset.from_dict({"content": ["a b c"]}).to_parquet(str(path))


def _files(*paths: str) -> list[str]:
    return ["--data.corpus.init_args.paths", json.dumps(paths)]


CASES: dict[str, tuple[list[str], list[str]]] = {
    "misspelt key": (["--config", "key.yaml"], ["max_step", "key.yaml, line 2", "max_steps"]),
    "misspelt top key": (["--config", "top.yaml"], ["modle", "top.yaml", "model"]),
    "misspelt option": (["--trainer.max_stepz", "3"], ["max_stepz", "Did you mean trainer.max_steps"]),
    "misspelt class": (
        ["--config", "class.yaml"],
        ["ScalrGate", "class.yaml, line 3", "Did you mean ScalarGate"],
    ),
    "misspelt argument": (["--config", "argument.yaml"], ["strat", "argument.yaml, line 5", "start"]),
    "wrong type": (["--config", "type.yaml"], ["max_steps", "many"]),
    "heads that don't divide": (["--config", "heads.yaml"], ["heads", "width 16"]),
    "missing configuration": (["--config", "missing.yaml"], ["missing.yaml"]),
    "empty configuration": (["--config", "empty.yaml"], ["empty.yaml", "empty"]),
    "list as configuration": (["--config", "list.yaml"], ["list.yaml"]),
    "tab in a configuration": (["--config", "tab.yaml"], ["tab.yaml"]),
    "missing file": (_files("nowhere.jsonl"), ["no file nowhere.jsonl"]),
    "glob of nothing": (_files("nowhere/*.jsonl"), ["nowhere/*.jsonl matches no file"]),
    "unknown kind": (_files("small.yaml"), ["small.yaml", ".jsonl"]),
    "missing column": (_files("other.parquet"), ["other.parquet", "text", "content"]),
    "malformed row": (_files("malformed.jsonl"), ["malformed.jsonl, line 2"]),
    "null row": (_files("null.jsonl"), ["null.jsonl, line 2"]),
    "not UTF-8": (_files("latin.jsonl"), ["latin.jsonl", "UTF-8"]),
    "empty corpus": (_files("empty.jsonl"), ["empty.jsonl", "no text"]),
    "corpus of empty texts": (_files("blank.jsonl"), ["blank.jsonl", "no text"]),
    "corpus shorter than a window": (
        [*_files("short.jsonl"), "--data.context", "100000"],
        ["split has", "100001", "data.context"],
    ),
    "micro-batch that doesn't divide": (["--data.micro_batch", "5"], ["data.micro_batch", "1, 2, 4, 8, 16"]),
    "accumulation by hand": (["--trainer.accumulate_grad_batches", "2"], ["data.micro_batch"]),
    "no steps": (["--trainer.max_steps", "0"], ["max_steps"]),
    "endless steps": (["--trainer.max_steps", "-1"], ["max_steps"]),
    "fractional validation interval": (["--trainer.val_check_interval", "0.5"], ["val_check_interval"]),
    "unknown role": (["--model.optimizer.multipliers", "{gates: 2.0}"], ["multipliers", "token_dependent"]),
    "missing reference": (
        ["--matching.reference", "checkpoints/transfromer"],
        ["transfromer", "checkpoints/transformer/version_0"],
    ),
    "reference of other data": (
        ["--matching.reference", "checkpoints/transformer", "--data.seed", "1"],
        ["data_seed is 0, this run's is 1"],
    ),
    "missing checkpoint": (["--ckpt_path", "nowhere/last.ckpt"], ["nowhere/last.ckpt", "no checkpoint"]),
    "not a checkpoint": (["--ckpt_path", "docs.jsonl"], ["docs.jsonl"]),
}


def _name(case: str) -> str:
    return case.replace(" ", "-")


def _command(case: str) -> list[str]:
    return ["fit", "--config", TRANSFORMER, *SMALL, "--run", _name(case), *CASES[case][0]]


def _check(case: str, code: object, errors: str) -> None:
    assert code == 2, errors
    assert "Traceback" not in errors
    assert "step 1/" not in errors
    message = errors[errors.index("error: ") :].strip().splitlines()
    assert len(message) <= 3, message
    for part in CASES[case][1]:
        assert part in "\n".join(message)
    assert not (_folder() / "checkpoints" / _name(case)).exists()


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_told_in_a_few_lines(case: str, capfd: pytest.CaptureFixture[str]) -> None:
    folder = _folder()
    capfd.readouterr()
    with arguments(folder, *_command(case)), pytest.raises(SystemExit) as end:
        main()
    _check(case, end.value.code, capfd.readouterr().err)


def test_the_process_ends_soon_without_a_traceback() -> None:
    cases = ["misspelt key", "misspelt class", "missing file", "missing reference", "empty configuration"]
    _folder()
    with ThreadPoolExecutor(2) as pool:
        for case, (code, errors, seconds) in zip(cases, pool.map(_process, cases), strict=True):
            _check(case, code, errors)
            assert seconds < 15


def _process(case: str) -> tuple[int, str, float]:
    start = time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": str(CONFIGS.parent), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "mgvr_lightning", *_command(case)]
    done = subprocess.run(
        command, cwd=_folder(), env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stderr, time.perf_counter() - start
