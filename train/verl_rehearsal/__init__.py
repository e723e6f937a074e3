"""verl's own vLLM lane on vLLM's CPU build: `plugin` is loaded beside `train.verl_cpu` where `platform=rehearsal`.

A rehearsal runs what a run on GPUs runs: verl's vLLM server and its weight updates, verl's engine with packed rows, and
the sizes and precisions of the profile. Each module here says what it stands in for:

- `plugin`: the name under which vLLM is installed, the tokenizer of Qwen2.5
- `worker`: vLLM's sleep on a GPU, which loses memory; weights that can be loaded anew; the copy of each weight from the
  trainer's process to the GPU
- `engine`: FSDP on CUDA, by `actor_rollout_ref.model.external_lib=train.verl_rehearsal.engine`

`notes` writes down what was lost and what came, in the run's folder.
"""
