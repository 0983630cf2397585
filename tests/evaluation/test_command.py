"""The command from end to end: on a checkpoint, on a model of transformers, on two processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from bundles import bundle
from helpers import CONFIGS
from runs import arguments, checkpoint, fit

from mgvr_lightning.commands.core import main
from mgvr_lightning.errors import InputError

SHARED = CONFIGS.parents[1] / "shared" / "data"


def scores(path: Path) -> dict[str, float]:
    lines = [line.split(",") for line in path.read_text(encoding="utf-8").splitlines()[1:]]
    return {line[0]: float(line[-1]) for line in lines}


def test_a_checkpoint_on_one_process_and_on_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, folder = fit(tmp_path, preset="mgvr"), bundle(tmp_path)
    given = [
        "--bundle",
        str(folder),
        "--checkpoint",
        str(checkpoint(run)),
        "--context",
        "400",
        "--device",
        "cpu",
    ]
    with arguments(tmp_path):
        main([*given, "--output", "one.csv"])
    assert "CORE" in capsys.readouterr().out
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "PYTHONPATH": str(CONFIGS.parent), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *command, "-m", "mgvr_lightning", "core", *given, "--output", "two.csv"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()
    assert done.stdout.count("CORE") == 1


def test_a_checkpoint_of_a_task_is_refused(tmp_path: Path) -> None:
    from runs import command

    options = ["--trainer.max_steps", "1", "--trainer.accelerator", "cpu", "--model.compile", "false"]
    configs = ["--config", str(CONFIGS / "transformer.yaml"), "--config", str(CONFIGS / "induction.yaml")]
    command(tmp_path, "fit", *configs, *options, "--run", "task")
    path = tmp_path / "checkpoints" / "task" / "version_0" / "checkpoints" / "last.ckpt"
    with pytest.raises(InputError, match="trained on Induction, not on text"):
        main(["--bundle", str(bundle(tmp_path)), "--checkpoint", str(path)])


def test_a_checkpoint_with_another_tokenizer_is_refused(tmp_path: Path) -> None:
    tokenizer = SHARED / "tokenizer" / "gpt2" / "tokenizer.json"
    if not tokenizer.exists():
        pytest.skip("no other tokenizer here")
    run = fit(tmp_path)
    given = ["--bundle", str(bundle(tmp_path)), "--checkpoint", str(checkpoint(run))]
    with pytest.raises(InputError, match="trained with the tokenizer"):
        main([*given, "--tokenizer", str(tokenizer)])


def test_a_model_that_transformers_cannot_load_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't load"):
        main(["--bundle", str(bundle(tmp_path)), "--hf", str(tmp_path)])


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.exists(), reason="no evaluation bundle here")
@pytest.mark.parametrize("kind", ["ours", "gpt2"])
def test_random_weights_land_at_random_level_on_the_real_suite(kind: str, tmp_path: Path) -> None:
    """Over 20 tasks of 60 questions the standard error of CORE is about 0.015."""
    tokenizer = SHARED / "tokenizer" / "gpt2" / "tokenizer.json"
    if kind == "ours":
        run = fit(
            tmp_path, "--data.tokenizer", str(tokenizer), "--data.vocabulary", "null", preset="bank_of_values"
        )
        model = ["--checkpoint", str(checkpoint(run)), "--context", "1024"]
    else:
        from transformers import PreTrainedTokenizerFast

        gpt2_of_50257(tmp_path / "gpt2")
        fast = PreTrainedTokenizerFast(tokenizer_file=str(tokenizer), bos_token="<|endoftext|>")
        fast.save_pretrained(tmp_path / "gpt2")
        model = ["--hf", str(tmp_path / "gpt2")]
    given = ["--bundle", str(SHARED / "core"), "--tasks", "core.exact20.yaml", "--limit", "60"]
    with arguments(tmp_path):
        main([*given, *model, "--output", "core.csv", "--device", "cpu"])
    found = scores(tmp_path / "core.csv")
    assert len(found) > 20
    assert abs(found["CORE"]) < 0.06


def gpt2_of_50257(folder: Path) -> None:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(n_embd=64, n_layer=2, n_head=2)
    GPT2LMHeadModel(config).save_pretrained(folder)
