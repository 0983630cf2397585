#!/usr/bin/env bash
# Trains the Transformer on every task (on MQAR with one seed, else with three) and MGVR on the others with one;
# what is finished is skipped.
set -euo pipefail
cd "$(dirname "$0")/../../.."
out=$(pwd)/docs/results/tasks/runs
for seed in 0 1 2; do
  for preset in transformer mgvr; do
    for task in induction two_hop mqar; do
      [ "$seed" = 0 ] || { [ "$preset" = transformer ] && [ "$task" != mqar ]; } || continue
      [ "$preset" = transformer ] || [ "$task" != mqar ] || continue
      name=$task-$preset-$seed
      [ -f "$out/$name.jsonl" ] && continue
      python -m mgvr_lightning fit --config "configs/$preset.yaml" --config "configs/$task.yaml" \
        --data.seed "$seed" --model.seed "$seed" --run "$name" --trainer.enable_checkpointing false
      mkdir -p "$out"
      cp "checkpoints/$name/$(ls -t "checkpoints/$name" | head -1)/metrics.jsonl" "$out/$name.jsonl"
    done
  done
done
