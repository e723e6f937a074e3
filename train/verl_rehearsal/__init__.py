"""Rehearse a GPU run on a CPU, with verl's own vLLM server and vLLM's CPU build (`platform=rehearsal`).

A rehearsal runs the same code as a run on GPUs: verl's vLLM server and its weight updates, and verl's engine with
packed rows. It has the sizes and precisions of the profile. `plugin` is loaded in addition to `train.verl_cpu`. Modules
here replace or imitate what a CPU lacks:

- `plugin`: the name under which vLLM is installed, and the tokenizer of Qwen2.5.
- `worker`: vLLM's sleep on a GPU, which loses memory. Weights that can be loaded again. The copy of each weight from
  the trainer's process to the GPU.
- `engine`: FSDP on CUDA, by `actor_rollout_ref.model.external_lib=train.verl_rehearsal.engine`.

`notes` records in the run's folder which weights were lost and received.
"""
