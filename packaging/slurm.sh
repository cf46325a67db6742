#!/usr/bin/env bash
# slurm.sh: one model over machines: sbatch packaging/slurm.sh MODEL PROMPT. Each task is one rank. Needs the model's files on
# every machine. docs/deploy.md explains it.
#SBATCH --job-name=attacca
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=00:30:00
set -euo pipefail
model=${1:?"usage: sbatch packaging/slurm.sh MODEL PROMPT"}
prompt=${2:?"usage: sbatch packaging/slurm.sh MODEL PROMPT"}
# If a task fails, the others say which one and end by themselves within --rank-deadline.
exec srun --mpi=none --kill-on-bad-exit=0 attacca run "$model" "$prompt" \
  --ranks "${SLURM_NTASKS:?run it with sbatch}" --threads "${SLURM_CPUS_PER_TASK:-1}" --rank-deadline 60 --stats
