import math
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
import yaml
from documents import KEPT, texts, write_documents
from helpers import PRESETS
from runs import checkpoint, fit, home, small
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from mgvr_lightning.analysis.run import Run
from mgvr_lightning.model import Sampling, generate
from mgvr_lightning.module import LanguageModule

STEPS = ["--trainer.max_steps", "3", "--model.network.layers", "6"]  # so that presets differ
VALIDATION = {"val/loss", "val/perplexity", "val/accuracy", "val/bits_per_byte"}
TRAINING = {
    "train/loss",
    "train/accuracy",
    "train/grad_norm",
    "train/tokens",
    "time/step_seconds",
    "time/tokens_per_second",
    "time/model_flops_per_second",
    "lr/embedding",
    "lr/head",
    "lr/matrix",
}


@cache
def _runs() -> Path:
    KEPT.append(TemporaryDirectory(prefix="mgvr-presets-"))
    return Path(KEPT[-1].name)


@cache
def _run(preset: str) -> Run:
    return fit(_runs(), *STEPS, preset=preset, name=preset)


def _documents(folder: Path, documents: list[str]) -> list[str]:
    settings = small(write_documents(folder / "docs.jsonl", documents), folder / "data")
    (folder / "data.yaml").write_text(yaml.safe_dump({"data": settings["data"]}), encoding="utf-8")
    return ["--config", str(folder / "data.yaml")]


@pytest.mark.parametrize("preset", PRESETS)
def test_preset_trains_on_the_same_data_with_finite_losses(preset: str) -> None:
    run = _run(preset)
    assert run.series("data/hash") == _run("transformer").series("data/hash")
    assert list(run.series("train/loss")) == [1, 2, 3]
    assert list(run.series("val/loss")) == list(run.series("data/hash")) == [2, 3]
    assert all(math.isfinite(loss) for key in ("train/loss", "val/loss") for loss in run.series(key).values())


@pytest.mark.parametrize("preset", PRESETS)
def test_preset_starts_from_the_transformer_where_they_share_tensors(preset: str) -> None:
    ours, theirs = (_run(name).provenance["initial_tensors"] for name in (preset, "transformer"))
    shared = set(ours) & set(theirs)
    assert len(shared) > 10
    assert {name: ours[name] for name in shared} == {name: theirs[name] for name in shared}


@pytest.mark.parametrize("preset", PRESETS)
def test_preset_is_reloaded_from_its_checkpoint_and_decodes(preset: str) -> None:
    path = checkpoint(_run(preset))
    network = LanguageModule.load_from_checkpoint(path, map_location="cpu", weights_only=True).network
    saved = torch.load(path, weights_only=True)["state_dict"]
    loaded = {f"network.{name}": tensor for name, tensor in network.state_dict().items()}
    torch.testing.assert_close(loaded, saved, rtol=0, atol=0)
    network = network.double()
    prompt = torch.tensor([[256, 84, 104, 101], [256, 65, 32, 99]])
    ids = torch.cat((prompt, torch.stack(list(generate(network, prompt, 8, Sampling(temperature=0))), 1)), 1)
    with torch.no_grad():
        assert torch.equal(network.logits(ids)[:, 3:-1].argmax(-1), ids[:, 4:])


def test_presets_train_to_different_losses() -> None:
    losses = [_run(preset).series("val/loss")[3] for preset in PRESETS]
    assert len(set(losses)) == len(PRESETS)


def test_run_folder_holds_what_is_documented() -> None:
    folder = _run("mgvr").folder
    assert {path.name for path in (folder / "checkpoints").iterdir()} == {"best.ckpt", "last.ckpt"}
    assert len(list(folder.glob("events.out.tfevents.*"))) == 1
    assert {"config.yaml", "metrics.jsonl", "provenance.json"} <= {path.name for path in folder.iterdir()}


def test_metrics_have_the_documented_keys_at_every_step() -> None:
    records = _run("mgvr").records
    by_step: dict[int, set[str]] = {}
    for record in records:
        keys = set(record) - {"step"}
        assert not by_step.get(record["step"], set()) & keys
        by_step.setdefault(record["step"], set()).update(keys)
    training = TRAINING | {"lr/token_dependent"}
    untimed = {key for key in training if not key.startswith("time/")}  # the first step compiles
    kinds = ("gate", "gate_spread", "mix", "mix_spread", "mix_across")
    learned = {f"coefficients/{kind}/layer{layer}" for kind in kinds for layer in range(1, 6)}
    assert by_step.pop(0) == {"run/machine", "run/planned_steps"}
    probed = {key for key in by_step[2] if key.startswith("induction/")}
    assert probed >= {"induction/copy_accuracy", "induction/loss", "induction/prefix_matching/max"}
    validated = training | VALIDATION | learned | probed | {"data/hash"}
    assert by_step == {1: untimed, 2: validated, 3: validated | {"run/finished"}}


def test_event_file_agrees_with_the_metrics_file() -> None:
    run = _run("mgvr")
    events = EventAccumulator(str(run.folder))
    events.Reload()
    tags = events.Tags()["scalars"]
    assert set(tags) >= TRAINING | VALIDATION | {"lr/token_dependent"}
    for tag in tags:
        points = {event.step: event.value for event in events.Scalars(tag)}
        assert len(points) == len(events.Scalars(tag))
        assert points == pytest.approx(run.series(tag), rel=1e-6)


def test_metrics_are_consistent_with_one_another() -> None:
    run = _run("mgvr")
    for step, loss in run.series("val/loss").items():
        assert run.series("val/perplexity")[step] == pytest.approx(math.exp(loss), rel=1e-12)
    assert list(run.series("train/tokens").values()) == [512, 1024, 1536]
    for step, speed in run.series("time/tokens_per_second").items():
        assert speed * run.series("time/step_seconds")[step] == pytest.approx(512)
        assert run.series("time/model_flops_per_second")[step] == pytest.approx(
            speed * run.provenance["network"]["flops_per_token"]
        )


def test_first_loss_is_that_of_a_uniform_guess() -> None:
    assert _run("transformer").series("train/loss")[1] == pytest.approx(math.log(320), abs=0.2)


def test_logged_learning_rate_is_that_of_the_update() -> None:
    run = _run("transformer")
    assert list(run.series("lr/matrix").values()) == pytest.approx([2e-3 / 3, 4e-3 / 3, 2e-3])
    scheduled = [
        *("--model.schedule", "Cosine", "--model.schedule.warmup", "1", "--model.schedule.final", "0.5"),
        *("--model.optimizer.multipliers", "{head: 2.0}"),
    ]
    rates = fit(_runs(), *STEPS, *scheduled, name="scheduled")
    assert list(rates.series("lr/matrix").values()) == pytest.approx([2e-3, 1.5e-3, 1e-3])
    assert list(rates.series("lr/head").values()) == pytest.approx([4e-3, 3e-3, 2e-3])


def test_provenance_says_what_produced_the_run() -> None:
    provenance = _run("mgvr").provenance
    assert {"started", "versions", "machine", "data", "corpus", "network", "initial_tensors"} <= set(
        provenance
    )
    assert provenance["versions"]["torch"] == torch.__version__
    assert provenance["machine"]["type"] == "cpu"
    assert provenance["data"]["context"] == 32
    assert provenance["network"]["vocabulary"] == 320
    weights = torch.load(checkpoint(_run("mgvr")), weights_only=False)["state_dict"]
    assert set(provenance["initial_tensors"]) == {name.removeprefix("network.") for name in weights}
    assert provenance["network"]["parameters"] == sum(tensor.numel() for tensor in weights.values())


def test_saved_configuration_repeats_the_run(tmp_path: Path) -> None:
    first = _run("mgvr")
    config = yaml.safe_load((first.folder / "config.yaml").read_text(encoding="utf-8"))
    assert config["model"]["values"]["mix"]["class_path"].endswith("TokenMatrix")
    again = fit(tmp_path, "--config", str(first.folder / "config.yaml"), "--run", "again", name="again")
    for key in ("train/loss", "val/loss", "data/hash"):
        assert again.series(key) == first.series(key)


def test_a_run_of_the_same_name_becomes_the_next_version(tmp_path: Path) -> None:
    versions = [fit(tmp_path, "--trainer.max_steps", "1").folder.name for _ in range(2)]
    assert versions == ["version_0", "version_1"]


def test_hash_changes_with_one_token_of_one_document(tmp_path: Path) -> None:
    every_window = ["--trainer.max_steps", "30", "--trainer.val_check_interval", "30"]
    documents = texts(60)
    hashes = []
    for name, changed in (("before", documents), ("after", [documents[0][:-1] + "k", *documents[1:]])):
        (tmp_path / name).mkdir()
        tokenizer = str(_tokenizer())
        options = ["--data.tokenizer", tokenizer, *every_window]
        run = fit(tmp_path / name, *_documents(tmp_path / name, changed), *options)
        hashes.append(run.series("data/hash")[30])
    assert hashes[0] != hashes[1]


def _tokenizer() -> Path:
    _run("transformer")
    return next((home() / "data").glob("*/tokenizer.json"))
