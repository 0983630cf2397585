"""Encodes the pieces of a corpus, in this process or in several."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

from mgvr_lightning.data.preparation.encoder import Encoder, Job
from mgvr_lightning.data.preparation.splits import Splits
from mgvr_lightning.data.preparation.tokenizer import Tokenizer
from mgvr_lightning.data.preparation.workshop import Workshop
from mgvr_lightning.errors import InputError

SMALL = 2**26
_POLL_SECONDS = 0.2
_PARALLELISM = "TOKENIZERS_PARALLELISM"
_OUR_OFF = "off"

_worker: dict[str, Any] = {}


def encode(
    jobs: Sequence[Job],
    splits: Splits,
    workshop: Workshop,
    processes: int | None,
    report: Callable[[int], None],
    finished: Callable[[Job], None],
) -> None:
    """Encode every piece that is not finished and that nobody else works on.

    Args:
        jobs: The pieces.
        splits: The rule that divides their documents.
        workshop: Where they go.
        processes: How many to use; None for one per core. A small corpus is encoded in this process, by a
            tokenizer with as many threads.
        report: Called now and then with the bytes of text done since the last call.
        finished: Called with each piece that is done with.

    Raises:
        InputError: If a piece cannot be read, or a process was killed.
    """
    count = min(processes or cores(), len(jobs))
    if count <= 1 or (processes is None and sum(job.piece.bytes for job in jobs) <= SMALL):
        _encode_here(jobs, splits, workshop, report, finished)
    else:
        _encode_apart(jobs, splits, workshop, count, report, finished)


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _encode_here(
    jobs: Sequence[Job],
    splits: Splits,
    workshop: Workshop,
    report: Callable[[int], None],
    finished: Callable[[Job], None],
) -> None:
    tokenizer = Tokenizer.load(workshop.tokenizer_file)
    with tokenizer_threads():
        for job in jobs:
            _encode_one(job, splits, workshop, tokenizer, report)
            finished(job)


def _encode_one(
    job: Job, splits: Splits, workshop: Workshop, tokenizer: Tokenizer, advance: Callable[[int], None]
) -> None:
    with workshop.claim(job.index) as folder:
        if folder is not None:
            Encoder(job, splits, tokenizer, folder).run(advance)


def _encode_apart(
    jobs: Sequence[Job],
    splits: Splits,
    workshop: Workshop,
    processes: int,
    report: Callable[[int], None],
    finished: Callable[[Job], None],
) -> None:
    # No fork: a process that runs the threads of torch or of a tokenizer can dead-lock.
    start = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    context = multiprocessing.get_context(start)
    done, told = context.Value("q", 0), 0
    pool = ProcessPoolExecutor(processes, context, initializer=_start, initargs=(workshop, splits, done))
    try:
        waiting: dict[Future[None], Job] = {pool.submit(_work, job): job for job in jobs}
        while waiting:
            ready, _ = wait(waiting, _POLL_SECONDS, FIRST_COMPLETED)
            now = done.value
            report(now - told)
            told = now
            for future in ready:
                future.result()
                finished(waiting.pop(future))
    except BrokenProcessPool as error:
        raise InputError(
            "a process that prepared the corpus has died; most often the machine had too little memory.\n"
            "Run the command again: it goes on where it stopped. Fewer `--processes` need less memory. (In a "
            'script of your own, call this under `if __name__ == "__main__":`.)'
        ) from error
    except BaseException:
        for process in list((pool._processes or {}).values()):  # what they were at is lost, and no more
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _start(workshop: Workshop, splits: Splits, done: Any) -> None:
    """Set a worker process up: one thread of its own, and an end with the process that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ[_PARALLELISM] = "false"
    tokenizer = Tokenizer.load(workshop.tokenizer_file)
    _worker.update(workshop=workshop, splits=splits, done=done, tokenizer=tokenizer)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _work(job: Job) -> None:
    def advance(count: int) -> None:
        with _worker["done"].get_lock():
            _worker["done"].value += count

    _encode_one(job, _worker["splits"], _worker["workshop"], _worker["tokenizer"], advance)


@contextmanager
def tokenizer_threads() -> Iterator[None]:
    """Let the tokenizer use all cores, and keep its warnings out of loader processes forked afterwards."""
    if os.environ.get(_PARALLELISM, _OUR_OFF) != _OUR_OFF:
        yield
        return
    os.environ[_PARALLELISM] = "true"
    try:
        yield
    finally:
        os.environ[_PARALLELISM] = _OUR_OFF
