#!/usr/bin/env bash
# settings_test.sh EXPLORE SETTINGS_MD: every setting of the actors is drawn at its extremes by the fault search, or is
# named here with the reason why not.
set -euo pipefail
drawn=$("$1" --list-settings)
# Fixed by a scenario: the model and its shape, the device and how it computes, the number of instances, what policies
# switch, autoscaling and how it gets processes.
fixed='instances.count instances.device instances.threads instances.kv_type instances.isa scheduler.policy
instances.deterministic instances.memory_share instances.cuda_plugin instances.cuda_graphs instances.cuda_trials instances.cuda_notify
instances.cuda_copies instances.pipeline_layers scheduler.migration scaling.mode scaling.provisioner scaling.command_out scaling.command_in'
# Of the HTTP edge, which is not there, and of files.
edge='scheduler.policy_plugin scheduler.policy_arguments frontend.prompts_max lora.directory kv_store.disk_directory speculation.draft_model'
# Worked out from the timeout: silence needs no heartbeats in a simulated world.
silence='cluster.heartbeat_interval cluster.name'
# Files of certificates: the simulated network has no strangers.
strangers='cluster.tls_cert cluster.tls_key cluster.tls_ca'
missing=0
while read -r setting; do
  grep -qxF "$setting" <<<"$drawn" && continue
  grep -qwF "$setting" <<<"$fixed $edge $silence $strangers" && continue
  echo "$setting is not drawn by the fault search (tests/explore/shape.cpp)"
  missing=1
done < <(awk -F'`' '/^## \[/ { gsub(/^## \[|\].*/, "", $0); table = $0 }
  /^\| `/ && table ~ /^(instances|llumlet|scheduler|priorities|scaling|frontend|migration|cluster|kv_store|lora|speculation)$/ { print table "." $2 }' "$2")
while read -r name; do
  [[ $name == \(* ]] || grep -qF "\`${name#*.}\`" "$2" || { echo "there is no setting $name"; missing=1; }
done <<<"$drawn"
exit $missing
