"""The texts of files to start from; ` ## ` begins a comment that is put into line with the others."""

JOB = """\
# A training job. Each line says what it means; change the values, then:
#   slacktide plan {file}          what it would cost and when it would finish; spends nothing
#   slacktide backtest {file}      policies compared on the market's past
#   slacktide run {file}           run it

name: {name} ## appears in reports, folders and machine names
run: python train.py ## the command, started once per GPU
# setup: pip install torch ## run once on each new machine, before the command
# workdir: . ## the folder to run in; by default the folder of this file
# envs: {{BATCH_SIZE: 512}} ## environment variables of the command
# secrets: {{WANDB_API_KEY: }} ## the same; read where the job is submitted, and never shown

resources:
  accelerators: {gpus} ## the GPU, and how many: 1..8 any number, {{1,2,4,8}} only these, 4 exactly four
work: {work} ## how long the job takes on a single GPU
speedup: {{amdahl: {parallel}}} ## the share of the work that runs in parallel, or measured:
# speedup: {{table: {{1: 1, 2: 1.9, 4: 3.5, 8: 6.2}}}} ## GPUs, and how many times as fast as one

deadline: {deadline} ## from the start, or a time such as 2030-05-01T18:00Z; finishing later is a failure
# value: 600 usd ## what a result on time is worth; with the next line the deadline is soft
# worthless_after: 18h ## by then the value has fallen to nothing
# max_cost: 300 usd ## checkpoint and stop rather than spend more

restart: {restart} ## no progress for this long after workers join
checkpoint: {{every: {every}, grace: 30s}} ## how often; time to stop in. Saves nothing? Delete this line
# retries: {{failures: 3}} ## how many times the job is restarted after its own failures

policy: auto ## what decides: `slacktide policies` lists them; module:Class is one of your own
market: {market} ## synthetic prices; or the path of a trace, see `slacktide market import`
"""

FLEET = """\
# Jobs that keep arriving, and one budget for all of them. Change the values, then:
#   slacktide budget {file}        how wide each class should run, and what that buys
#   slacktide simulate {file}      policies compared on a stream of such jobs
# `slacktide fleet learn past.csv` writes such a file from a table of past jobs.

budget: {budget} ## an average over time; or money: 40 usd/hour, 20000 usd/month
price: 2.50 usd ## what a GPU-hour costs, or a mixture:
# price: {{spot: 2 usd, on_demand: 7 usd, spot_share: 0.8}}
# policy: fixed-width ## what decides while jobs run; module:Class is one of your own

classes:
  - name: {name} ## letters, digits, '.', '_' and '-'
    arrivals: 2/hour ## how often such a job arrives, in the long run; or 20/day
    work: 2 gpu-hours ## mean work of a job, on one GPU
    speedup: {{amdahl: 0.9}} ## the share of the work that runs in parallel
    restart: 2m ## no progress for this long after a start or a change of width
    widths: {widths} ## how many GPUs: 1..8 any number, {{1,2,4,8}} only these

  - name: training
    arrivals: 1/day
    work: 40 gpu-hours
    speedup: {{amdahl: 0.97}} ## or measured: {{table: {{1: 1, 2: 1.9, 4: 3.5, 8: 6.2}}}}
    restart: 4m
    widths: {widths}

stream: ## the machines, and how `slacktide simulate` generates jobs
  node_gpus: 1 ## GPUs are rented in nodes of this many
  provisioning: 4m ## from requesting a node until it is ready
  idle_grace: 5m ## how long an idle node is kept
  arrivals: poisson ## or bursty
  sizes: lognormal ## or exponential, fixed, pareto
"""
