#include "main/settings.hpp"

#include "main/kv_store_options.hpp"
#include "main/logging.hpp"
#include "main/lora_options.hpp"
#include "main/migration_parts.hpp"
#include "main/queue_options.hpp"
#include "main/scheduling_settings.hpp"
#include "main/speculation_options.hpp"
#include "main/swap_options.hpp"
#include "main/trace_settings.hpp"

#include <godwit/gpu/cpu/isa.hpp>
#include <godwit/runtime/log/level.hpp>
#include <godwit/transport/ucx/fabric.hpp>

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>
#include <variant>

#include <arpa/inet.h>

namespace godwit::main {

namespace {

void declare_engine(runtime::config::registry& r, serve_settings& s) {
  r.add("model.name", s.model.name,
        {.doc =
             "The name under which clients ask for the model. Empty: the name of its directory, or of its GGUF file."});
  r.add("model.aliases", s.model.aliases,
        {.doc = "Other names under which clients may ask for it: gpt-4o,default. Answers tell model.name, and "
                "/v1/models has all of them."});
  r.add("model.context_max", s.model.context_max,
        {.doc = "Longest prompt plus answer. 0: the length that the model was made for. Lower it to bound the memory "
                "of one request.",
         .unit = "tokens",
         .min = 0,
         .max = 10'000'000});
  r.add("model.quantization", s.model.quantization,
        {{"none", gpu::model::rounding::none},
         {"int8", gpu::model::rounding::int8},
         {"int4", gpu::model::rounding::int4},
         {"q8_0", gpu::model::rounding::q8_0},
         {"q4_0", gpu::model::rounding::q4_0}},
        {.doc = "Rounds the matrices of the model's layers as it is loaded, each 32 weights of a row with a scale of "
                "their own: int8 takes 9 bits a weight, int4 5.25, on CPUs; answers change a little, with int4 more. "
                "q8_0 and q4_0: likewise, and the activations that meet them are rounded to eight bits, too, as "
                "llama.cpp does; quicker. none: as the files have them, which may be quantized themselves. The same in "
                "all processes of a cluster.",
         .flag = "--quantization"});
  r.add("model.chat_template", s.model.chat_template,
        {.doc = "File with the chat template (Jinja) to use in place of the model directory's. Empty: the model's own, "
                "or ChatML where it has none.",
         .flag = "--chat-template"});
  r.add("model.reasoning_parser", s.model.reasoning_parser,
        {{"none", reasoning_format::none},
         {"think", reasoning_format::think},
         {"qwen3", reasoning_format::think},
         {"deepseek_r1", reasoning_format::think}},
        {.doc =
             "How a model that thinks before it answers marks that, so that chats tell it as reasoning_content: think, "
             "between <think> and </think>; qwen3 and deepseek_r1 are other names of it. none: it is part of the "
             "answer's text.",
         .flag = "--reasoning-parser"});

  r.add("instances.count", s.instances.count,
        {.doc =
             "Model instances of this process. They share the weights and divide the cores. 0 (with serve): all come "
             "with processes that join.",
         .unit = "instances",
         .min = 0,
         .max = 1024,
         .flag = "--instances"});
  r.add("instances.roles", s.instances.roles,
        {.doc = "What the instances of this process are for, in turn, each with how many of them: prefill:2,decode:6. "
                "The last one needs no number, and is also that of all behind it. prefill: takes new requests, and "
                "hands them over, KV and all, as soon as they decode. decode: takes them over, and new ones only where "
                "no prefill instance is there. mixed: both. Empty: mixed. They may change: scheduler.roles.",
         .flag = "--roles"});
  r.add("instances.device", s.instances.device,
        {{"auto", device_choice::automatic}, {"cpu", device_choice::cpu}, {"cuda", device_choice::cuda}},
        {.doc = "Where the model runs. auto: on NVIDIA's GPUs where there are some and the CUDA plug-in is installed, "
                "else on the CPU. cuda: nothing is served without a GPU.",
         .flag = "--device"});
  r.add("instances.deterministic", s.instances.deterministic,
        {.doc = "On GPUs, too, form every sum in one order: an answer does then not depend on the other requests, nor "
                "on moves. Slower. Without it a GPU's streamed tokens never change, but the same request may get "
                "another answer the next time. The CPU always does this.",
         .flag = "--deterministic"});
  r.add("instances.memory_share", s.instances.memory_share,
        {.doc = "With kv_bytes 0, on GPUs: the part of the memory left by the model's weights that this process's KV "
                "caches take together.",
         .min = 0.01,
         .max = 1.0});
  r.add("instances.cuda_plugin", s.instances.cuda_plugin,
        {.doc =
             "File of the CUDA plug-in. Empty: libgodwit_cuda.so beside the program, or in ../lib/godwit from there."});
  r.add("instances.cuda_graphs", s.instances.cuda_graphs,
        {.doc = "On GPUs, launch steps that only decode as CUDA graphs."});
  r.add("instances.cuda_trials", s.instances.cuda_trials,
        {.doc = "On GPUs, before a model's first step, try which of cuBLASLt's algorithms, or the kernel of the "
                "deterministic mode, is fastest at its products of up to 64 rows; some two seconds. Not with "
                "--deterministic, nor where devices share the model."});
  r.add(
      "instances.cuda_notify", s.instances.cuda_notify,
      {{"callback", notify_choice::callback}, {"polling", notify_choice::polling}},
      {.doc = "How the end of a GPU's work becomes known: the driver calls back, or a thread asks. For comparisons."});
  r.add("instances.cuda_copies", s.instances.cuda_copies,
        {{"kernel", copies_choice::kernel}, {"engines", copies_choice::engines}},
        {.doc = "On a single GPU, how small pieces of KV get to page-locked memory and back: by a kernel a few "
                "multiprocessors wide, or by the copy engines. For comparisons."});
  r.add("instances.tensor_parallel", s.instances.tensor_parallel,
        {.doc =
             "Devices that share each instance's model, every one with a part of its heads; has to divide the model's "
             "KV heads. On the CPU a device is a part of the instance's threads; the GPUs of a process are taken in "
             "groups of so many. Instances of different degrees exchange requests.",
         .unit = "devices",
         .min = 1,
         .max = 64,
         .flag = "--tensor-parallel"});
  r.add("instances.pipeline_parallel", s.instances.pipeline_parallel,
        {.doc =
             "Devices that each have some of the layers of each instance's model: stages that a step goes through one "
             "after the other. On the CPU a device is a part of the instance's threads; the GPUs of a process are "
             "taken in groups of so many. Not with --tensor-parallel. Instances with and without exchange requests.",
         .unit = "devices",
         .min = 1,
         .max = 64,
         .flag = "--pipeline-parallel"});
  r.add("instances.pipeline_layers", s.instances.pipeline_layers,
        {.doc = "How many layers each stage has, in their order: 20,12. Empty: evenly.", .flag = "--pipeline-layers"});
  r.add("instances.pipeline_rows", s.instances.pipeline_rows,
        {.doc = "Tokens that take a stage as long to compute as its weights take to be read: some hundreds on GPUs. A "
                "step is cut into as many parts, which stages compute at once, as take least by that: with 256, steps "
                "of 1,024 tokens on two stages or of 512 on four into two. 0: they are never cut.",
         .unit = "tokens",
         .max = 1'000'000});
  r.add("instances.pipeline_steps", s.instances.pipeline_steps,
        {.doc = "Steps of different requests, or with one prompt's chunks, that are on their way through the stages at "
                "once, so that no stage waits while another one computes. 0: as many as there are stages, which is "
                "also the most. 1: the next one "
                "begins when the one before has left the last stage, as always where a draft model drafts.",
         .unit = "steps",
         .max = 64});
  r.add("instances.pipeline_balance", s.instances.pipeline_balance,
        {.doc = "On CPUs, layers move from a slow stage to a fast one while requests decode, where that makes the "
                "slowest stage quicker by this share. 0: never. On GPUs they stay where they are.",
         .min = 0,
         .max = 1,
         .flag = "--pipeline-balance"});
  r.add("instances.pipeline_balance_window", s.instances.pipeline_balance_window,
        {.doc = "For how long the slowest stage has computed before layers move, and again before the next move.",
         .min = 10,
         .max = 3'600'000});
  r.add(
      "instances.threads", s.instances.threads,
      {.doc =
           "Computing threads of each instance. 0: the cores that this process may keep busy (by its affinity and its "
           "control groups), divided among the instances.",
       .unit = "threads",
       .min = 0,
       .max = 1024,
       .flag = "--threads"});
  r.add("instances.kv_bytes", s.instances.kv_bytes,
        {.doc = "Size of each instance's KV cache, on all its devices together. 0: on the CPU room for 8 requests of "
                "full length, but at most a quarter "
                "of the memory that is available when the instance starts; on a GPU see memory_share.",
         .unit = "bytes",
         .min = 0,
         .flag = "--kv-bytes"});
  r.add("instances.kv_type", s.instances.kv_type,
        {{"auto", kv_choice::automatic}, {"bf16", kv_choice::bf16}, {"f32", kv_choice::f32}, {"fp8", kv_choice::fp8}},
        {.doc = "Precision of the KV cache. auto: bf16 for bf16 weights, f32 for others; on a GPU as the weights. fp8 "
                "(E4M3 without scales; on CPUs): half of bf16's memory, so that twice as many tokens have room and a "
                "migration moves half as much; answers change a little."});
  r.add("instances.isa", s.instances.isa,
        {.doc = "Instruction set of the CPU kernels: auto, amx, avx512_vnni, avx512, avx2 or scalar. All give the same "
                "tokens; for comparisons."});
  r.add("instances.layers_per_advance", s.instances.layers_per_advance,
        {.doc = "After how many layers the device hands control back within a step. 0: once, at the end.",
         .unit = "layers",
         .min = 0,
         .max = 10'000});
  r.add("instances.step_timeout", s.instances.step_timeout,
        {.doc = "An instance whose step takes longer is taken for hung: it is restarted and its requests go elsewhere.",
         .unit = "ms",
         .min = 10,
         .max = hour_ms});
  r.add("instances.restart_backoff_min", s.instances.restart_backoff_min,
        {.doc = "Pause before a dead actor is restarted; doubles with every further death soon after.",
         .unit = "ms",
         .min = 0,
         .max = hour_ms});
  r.add("instances.restart_backoff_max", s.instances.restart_backoff_max,
        {.doc = "Longest pause before a restart.", .unit = "ms", .min = 1, .max = hour_ms});

  r.add("llumlet.batching", s.llumlet.batching,
        {{"continuous", protocols::batching_mode::continuous},
         {"prefill_first", protocols::batching_mode::prefill_first},
         {"static", protocols::batching_mode::static_batch}},
        {.doc = "continuous: requests join and leave at every step, prompts in chunks beside those who decode. For "
                "experiments, prefill_first: a step computes prompts, or else decodes, as engines did before chunks; "
                "static: a batch runs to its end before the next is admitted."});
  r.add("llumlet.step_tokens_max", s.llumlet.step_tokens_max,
        {.doc = "Tokens of one step; longer prompts are cut into chunks. Smaller: steadier decoding; larger: faster "
                "prefill.",
         .unit = "tokens",
         .min = 1,
         .max = 1'000'000});
  r.add("llumlet.sequences_max", s.llumlet.sequences_max,
        {.doc = "Requests that run at once on an instance; never more than llumlet.step_tokens_max.",
         .unit = "requests",
         .min = 1,
         .max = 65'536});
  r.add("llumlet.queue_max", s.llumlet.queue_max,
        {.doc = "Requests that may wait at an instance; when every queue is full, clients get 429.",
         .unit = "requests",
         .min = 1,
         .max = 1'000'000,
         .flag = "--queue-max"});
  r.add("llumlet.prefix_caching", s.llumlet.prefix_caching,
        {.doc = "Share the KV blocks of equal prompt beginnings between requests."});
}

void declare_cluster(runtime::config::registry& r, serve_settings& s) {
  r.add("frontend.requests_max", s.frontend.requests_max,
        {.doc = "Requests that the front end holds at once; further clients get 429.",
         .unit = "requests",
         .min = 1,
         .max = 10'000'000});
  r.add("frontend.attempts_max", s.frontend.attempts_max,
        {.doc =
             "How often in a row a request is given to an instance that brings no token of it before its client gets "
             "an error (in all at most 16 times as often). More than one only where instances die.",
         .unit = "attempts",
         .min = 1,
         .max = 10'000});
  r.add("frontend.placement_timeout", s.frontend.placement_timeout,
        {.doc = "How long a request that was let in waits for an instance that takes it, when the one that was to, or "
                "had it, is gone; then 503. New requests get the 503 at once while no instance is ready.",
         .unit = "ms",
         .min = 1,
         .max = hour_ms});
  r.add("frontend.request_timeout", s.frontend.request_timeout,
        {.doc = "From a request's arrival to its end, where it names no `timeout` of its own; then 504, or an error "
                "in its stream. 0: none.",
         .unit = "ms",
         .min = 0,
         .max = 7 * 24 * hour_ms});
  r.add("admission.ttft", s.admission.ttft,
        {.doc =
             "Objective of requests whose clients send none (X-SLO-TTFT-MS): from arrival to first token. They go to "
             "instances that are expected to meet it, while there are any. 0: none.",
         .unit = "ms",
         .min = 0,
         .max = hour_ms});
  r.add("admission.tpot", s.admission.tpot,
        {.doc = "The same for each further token (X-SLO-TPOT-MS).", .unit = "ms", .min = 0, .max = hour_ms});
  r.add("admission.margin", s.admission.margin,
        {.doc = "This share of an objective is left for what nobody can foresee: what is expected has to lie below the "
                "rest.",
         .min = 0,
         .max = 0.9});
  r.add("admission.early_rejection", s.admission.early_rejection,
        {.doc = "Refuse a request with 429 as it arrives where no instance is expected to meet its objectives, instead "
                "of serving it late.",
         .flag = "--early-rejection"});
  r.add("frontend.prompts_max", s.frontend.prompts_max,
        {.doc = "Prompts in one call of /v1/completions.", .unit = "prompts", .min = 1, .max = 65'536});
  r.add("runtime.worker_threads", s.runtime.worker_threads,
        {.doc = "Threads that run actors. 0: the cores that it may use, at least 2, at most 8. Models compute on "
                "threads of their own.",
         .unit = "threads",
         .min = 0,
         .max = 1024});
  r.add("runtime.drain_timeout", s.runtime.drain_timeout,
        {.doc =
             "After SIGTERM, how long running requests may take before they are cut off. Of a node: how long they may "
             "take to move to other instances before they are computed anew there.",
         .unit = "ms",
         .min = 0,
         .max = 24 * hour_ms,
         .flag = "--drain-timeout"});
  r.add("runtime.drain_delay", s.runtime.drain_delay,
        {.doc = "After SIGTERM, how long the server goes on as before, but for /health, which says 503: time for load "
                "balancers to notice before connections are refused.",
         .unit = "ms",
         .min = 0,
         .max = hour_ms,
         .flag = "--drain-delay"});
  r.add("runtime.ready_file", s.runtime.ready_file,
        {.doc =
             "File that is there while this process takes requests, for probes: of serve as long as /health says 200, "
             "of a node while it is joined and has an instance that is ready and does not drain. Empty: none.",
         .flag = "--ready-file"});
}

void declare_migration(runtime::config::registry& r, serve_settings& s) {
  r.add("migration.stages_max", s.migration.stages_max,
        {.doc = "Stages of one live migration at most, the last one included. Two are normal; one that needs more than "
                "this copies more slowly than its request decodes, and is given up.",
         .unit = "stages",
         .min = 2,
         .max = 1000});
  r.add("migration.last_blocks_max", s.migration.last_blocks_max,
        {.doc = "Complete KV blocks that may be left for the last stage, during which the request stands still. More: "
                "fewer stages, longer stalls. A request that is still computing its prompt brings what the step in "
                "flight adds as well.",
         .unit = "blocks",
         .min = 1,
         .max = 100'000});
  r.add("migration.out_max", s.migration.out_max,
        {.doc = "Migrations away from an instance at a time; further ones are refused. 0: none.",
         .unit = "migrations",
         .min = 0,
         .max = 1024});
  r.add("migration.in_max", s.migration.in_max,
        {.doc = "Migrations towards an instance at a time; further ones are refused. 0: none.",
         .unit = "migrations",
         .min = 0,
         .max = 1024});
  r.add(
      "migration.handoff_max", s.migration.handoff_max,
      {.doc =
           "As out_max of prefill instances and in_max of decode instances, where it is more than these: most of what "
           "they do is to hand requests over.",
       .unit = "migrations",
       .min = 1,
       .max = 1024});
  r.add("migration.answer_timeout", s.migration.answer_timeout,
        {.doc = "How long one side waits for the other's word before it gives up; the request runs on meanwhile.",
         .unit = "ms",
         .min = 1,
         .max = hour_ms});
  r.add("migration.stage_timeout", s.migration.stage_timeout,
        {.doc =
             "Longest time of a bulk stage, and of waiting for the end of a step. The request runs on meanwhile. As "
             "all of migration, the same in all processes of a cluster: a destination ends what lasts longer than its "
             "own settings let it.",
         .unit = "ms",
         .min = 1,
         .max = hour_ms});
  r.add("migration.last_timeout", s.migration.last_timeout,
        {.doc = "Longest time of the last stage, in which the request stands still. Then its home decides who has it.",
         .unit = "ms",
         .min = 1,
         .max = hour_ms});
  r.add("migration.lease", s.migration.lease,
        {.doc = "A destination gives up a source that is silent for so long, and frees what it reserved. Not less than "
                "migration.answer_timeout and migration.last_timeout; to be chosen longer than a step, for which the "
                "source waits before the last stage.",
         .unit = "ms",
         .min = 100,
         .max = hour_ms});
  r.add("migration.claim_timeout", s.migration.claim_timeout,
        {.doc = "How long an instance waits for a home's word on who owns a request.",
         .unit = "ms",
         .min = 1,
         .max = hour_ms});
  r.add("migration.claims_max", s.migration.claims_max,
        {.doc = "How often it asks. Then it lets go of the request, and tells the home so.",
         .unit = "questions",
         .min = 1,
         .max = 100});
  r.add("migration.portion_bytes", s.migration.portion_bytes,
        {.doc = "A bulk stage is copied in portions of this size, with pauses between them.",
         .unit = "bytes",
         .min = 1024,
         .max = 1024.0 * 1024 * 1024});
  r.add("migration.copy_share", s.migration.copy_share,
        {.doc = "Share of what the memory or the link could carry that a bulk stage takes; the rest belongs to the "
                "requests that decode. The last stage does not pause. 1: no pauses. At least 0.01, or 0: "
                "0.25 where devices copy; where cores do (KV in the host's memory) 0.0125, or 100 MB/s where that is "
                "more, up to 0.25. Pauses take "
                "at most half of stage_timeout from a stage.",
         .min = 0,
         .max = 1});
  r.add("fabric.backend", s.fabric.backend,
        {{"auto", fabric_choice::automatic},
         {"ucx", fabric_choice::ucx},
         {"in_process", fabric_choice::in_process},
         {"none", fabric_choice::none}},
        {.doc = "How KV blocks travel. auto: ucx where other processes can join, in_process otherwise. none: requests "
                "do not migrate."});
  r.add("fabric.listen", s.fabric.listen,
        {.doc =
             "Address that the other processes' blocks come to. It authenticates nobody, and who "
             "reaches it can run code as this user: keep it on loopback or on a network that is trusted. Over tcp "
             "UCX reaches IPv6 only from an interface without IPv4, and of IPv4 only the interface's first address."});
  r.add("fabric.port", s.fabric.port,
        {.doc =
             "For a firewall: the first of the ten ports that are to be open between the machines of a cluster. Each "
             "process of a machine takes its own. Processes that autoscaling starts take free ones. 0: any free "
             "ones.",
         .min = 0,
         .max = 65535 - transport::ucx::ports_of_fabric + 1});
  r.add("fabric.advertise", s.fabric.advertise,
        {.doc =
             "Address that the others are told instead of fabric.listen, where they know this machine by another one; "
             "fabric.port has to come through as it is. Empty: fabric.listen."});
  r.add("fabric.transports", s.fabric.transports,
        {.doc = "UCX transports that messages between processes may take, as in UCX_TLS: tcp, rc, ... With others of a "
                "network than tcp UCX chooses its interfaces by itself, whatever fabric.listen is."});
  r.add("fabric.cross_memory", s.fabric.cross_memory,
        {.doc =
             "Between processes of one machine blocks are copied straight out of the sender's memory, which is mapped, "
             "or read where it cannot be, as far as the kernel lets us (same user, ptrace allowed). Otherwise they "
             "travel as messages."});
  r.add("fabric.remote_reads", s.fabric.remote_reads,
        {{"auto", transport::ucx::remote_reading::devices},
         {"always", transport::ucx::remote_reading::always},
         {"never", transport::ucx::remote_reading::never}},
        {.doc =
             "Whose blocks UCX reads out of the sender's memory by itself, where fabric.transports names what can on "
             "both sides (rc or dc for InfiniBand and RoCE; cuda_ipc). auto: a GPU's, if UCX was built for it and is "
             "1.21 or newer. always: those of CPUs as well. never: blocks are sent, a GPU's by way of page-locked "
             "memory."}); // what of it was never seen: docs/design/fabric.md
  r.add("fabric.checksum", s.fabric.checksum,
        {.doc = "Verify a checksum of what lands. Finds broken memory and networks; costs a pass over the blocks at "
                "each side."});
  r.add("fabric.busy_poll", s.fabric.busy_poll,
        {.doc = "Poll the fabric without sleeping: some microseconds less for small messages, one core more."});
  r.add("debug.failpoints", s.debug.failpoints,
        {.doc = "For drills: NAME=ACTION[@N],... kills (kill) or stops (stop) this process when a migration passes the "
                "named place for the Nth time. docs/serving.md has the names. Empty: none."});
}

void declare_edges(runtime::config::registry& r, serve_settings& s) {
  r.add("http.listen", s.http.listen,
        {.doc =
             "HOST:PORT of the OpenAI-style endpoint; port 0 takes a free one and prints it. 0.0.0.0 stands for all of "
             "IPv4's addresses, [::] for those of IPv6 and IPv4.",
         .flag = "--listen"});
  r.add("http.threads", s.http.threads,
        {.doc = "I/O threads. Parsing and tokenising happen on them, of requests up to 64 KiB.",
         .unit = "threads",
         .min = 1,
         .max = 256});
  r.add("http.body_bytes_max", s.http.body_bytes_max,
        {.doc = "Largest request body; over it 413.", .unit = "bytes", .min = 1024, .max = 1024.0 * 1024 * 1024});
  r.add("http.bodies_bytes_max", s.http.bodies_bytes_max,
        {.doc = "Request bodies that are being received, all together; over it 503.",
         .unit = "bytes",
         .min = 1024,
         .max = 1024.0 * 1024 * 1024 * 1024});
  r.add("http.header_bytes_max", s.http.header_bytes_max,
        {.doc = "Largest request head; over it 431.", .unit = "bytes", .min = 256, .max = 1024 * 1024});
  r.add("http.connections_max", s.http.connections_max,
        {.doc = "Open connections; over it new ones are answered 503.",
         .unit = "connections",
         .min = 1,
         .max = 1'000'000});
  r.add("http.connections_per_address_max", s.http.connections_per_address_max,
        {.doc = "Open connections from one address (of IPv6: one network of 64 bits); over it new ones are answered "
                "429. A proxy's clients come from one address. 0: as many as from all.",
         .unit = "connections",
         .min = 0,
         .max = 1'000'000});
  r.add("http.queued_bytes_max", s.http.queued_bytes_max,
        {.doc = "What may wait for one slow reader before it is disconnected.",
         .unit = "bytes",
         .min = 4096,
         .max = 1024.0 * 1024 * 1024});
  r.add("http.answers_bytes_max", s.http.answers_bytes_max,
        {.doc = "Answers that wait for their readers, all together; over it those whose readers have taken nothing for "
                "longest are disconnected.",
         .unit = "bytes",
         .min = 4096,
         .max = 1024.0 * 1024 * 1024 * 1024});
  r.add("http.header_timeout", s.http.header_timeout,
        {.doc = "From the first byte of a request to the end of its head; then 408.",
         .unit = "ms",
         .min = 10,
         .max = hour_ms});
  r.add("http.body_timeout", s.http.body_timeout,
        {.doc = "From the end of the head to the end of the body; then 408.", .unit = "ms", .min = 10, .max = hour_ms});
  r.add("http.idle_timeout", s.http.idle_timeout,
        {.doc = "How long a connection may lie without a request.", .unit = "ms", .min = 10, .max = 24 * hour_ms});
  r.add("http.write_timeout", s.http.write_timeout,
        {.doc = "How long a client may take to read one write.", .unit = "ms", .min = 10, .max = hour_ms});
  r.add("http.api_key_file", s.http.api_key_file,
        {.doc = "File of API keys, one a line (a line that begins with '#' is a comment); requests then need one as "
                "\"Authorization: Bearer KEY\" or \"x-api-key: KEY\". Read again when it changes. Empty: no keys.",
         .flag = "--api-key-file"});
  r.add("http.tls_cert", s.http.tls_cert,
        {.doc = "PEM file of the certificate and those that lead to its root: the endpoint is https then (TLS 1.2 and "
                "1.3). Read again when it changes. Empty: http.",
         .flag = "--tls-cert"});
  r.add("http.tls_key", s.http.tls_key,
        {.doc = "PEM file of the certificate's key, without a password.", .flag = "--tls-key"});
  r.add("http.cors_allowed_origins", s.http.cors_allowed_origins,
        {.doc = "Origins whose pages browsers let read answers, such as https://app.example, or * for all; never "
                "those of /debug/. Empty: none.",
         .flag = "--cors-allowed-origins"});
  r.add("http.ignore_unsupported", s.http.ignore_unsupported,
        {.doc = "Fields of requests that are unknown or not supported are ignored and named in the answer's header "
                "X-Godwit-Ignored. Off: they are a 400 that names them.",
         .flag = "--ignore-unsupported"});
  r.add("http.debug", s.http.debug,
        {.doc = "Serve /debug/: a page that shows the last seconds' messages. Whoever reaches the endpoint sees them, "
                "and prompts where their content is recorded."});
  r.add("control.listen", s.control.listen,
        {.doc = "HOST:PORT of the control port (godwit status, godwit node --join). Without cluster.tls_cert it "
                "authenticates nobody and runs what it is sent: keep it on loopback or on a network that is trusted. "
                "Empty: none.",
         .flag = "--control"});
  r.add("control.advertise", s.control.advertise,
        {.doc =
             "HOST of the control port as other machines know it, for scaling.command_out and what is printed. Empty: "
             "that of control.listen, or this machine's name where that stands for all addresses."});
  r.add("cluster.name", s.cluster.name,
        {.doc = "What status and logs call this process. Empty: the control port's address, or host name and process "
                "id of one that joined.",
         .flag = "--name"});
  r.add("cluster.heartbeat_interval", s.cluster.heartbeat_interval,
        {.doc = "How often the processes of a cluster tell each other that they live.",
         .unit = "ms",
         .min = 10,
         .max = 60'000});
  r.add("cluster.connection_timeout", s.cluster.connection_timeout,
        {.doc = "A process that is silent for so long is taken for dead: its instances' requests go elsewhere, and it "
                "joins anew when it wakes. At least twice the interval.",
         .unit = "ms",
         .min = 20,
         .max = hour_ms});
  r.add("cluster.rejoin_pause_max", s.cluster.rejoin_pause_max,
        {.doc = "Longest pause between two attempts of a process to join its head again; the first is 200 ms, and each "
                "doubles.",
         .unit = "ms",
         .min = 1,
         .max = hour_ms});
  r.add("cluster.tls_cert", s.cluster.tls_cert,
        {.doc = "PEM file of this process's certificate and those that lead to its authority. The control port and the "
                "connections to it are TLS 1.3 then, and each side shows a certificate of the cluster's authorities; "
                "one that is connected to has a certificate for the host that is connected to. KV blocks go over the "
                "fabric, in the clear. Read again when it changes, as are the other two. Empty: no TLS.",
         .flag = "--cluster-tls-cert"});
  r.add("cluster.tls_key", s.cluster.tls_key,
        {.doc = "PEM file of that certificate's key, without a password.", .flag = "--cluster-tls-key"});
  r.add("cluster.tls_ca", s.cluster.tls_ca,
        {.doc = "PEM file of the authorities whose certificates the cluster's processes and operators have. Any of "
                "them is trusted, so it is the cluster's own, and not the world's.",
         .flag = "--cluster-tls-ca"});
  r.add("log.levels", s.log.levels,
        {.doc = "trace, debug, info, warning, error or off; for single components too: warning,http=debug. These are " +
                log_components() + ".",
         .flag = "--log-level"});
  r.add("log.format", s.log.format, {{"text", log_format::text}, {"json", log_format::json}},
        {.doc = "text, or json: one object a line.", .flag = "--log-format"});
  r.add("log.file", s.log.file,
        {.doc =
             "Log lines are appended to this file; after SIGHUP to a new one of its name, where it was renamed. Empty: "
             "standard error."});
  r.add("log.load_interval", s.log.load_interval,
        {.doc = "How often the head logs what runs, waits and is generated, while there is anything. 0s: never.",
         .unit = "ms",
         .min = 0,
         .max = hour_ms});
}

/// As browsers write it in their Origin field: scheme://host[:port], or anybody's.
bool is_origin(std::string_view text) {
  if (text == "*") return true;
  const auto scheme = text.find("://");
  if (scheme == std::string_view::npos || scheme == 0) return false;
  const auto host = text.substr(scheme + 3);
  return !host.empty() && host.find_first_of("/ \t*?#") == std::string_view::npos;
}

} // namespace

void declare(runtime::config::registry& registry, serve_settings& settings) {
  declare_engine(registry, settings);
  declare_speculation(registry, settings);
  declare_scheduling(registry, settings);
  declare_cluster(registry, settings);
  declare_migration(registry, settings);
  declare_queue(registry, settings);
  declare_swap(registry, settings);
  declare_kv_store(registry, settings);
  declare_lora(registry, settings);
  declare_edges(registry, settings);
  declare_trace(registry, settings);
  registry.relate([&settings]() -> std::optional<std::string> {
    if (settings.instances.restart_backoff_min > settings.instances.restart_backoff_max)
      return "instances.restart_backoff_min is above instances.restart_backoff_max";
    return std::nullopt;
  });
  registry.relate([&settings]() -> std::optional<std::string> {
    std::set<std::string_view> names{settings.model.name};
    for (const auto& alias : settings.model.aliases)
      if (alias.empty() || !names.insert(alias).second)
        return "model.aliases: '" + alias + "' is " + (alias.empty() ? "no name" : "a name that the model has already");
    return std::nullopt;
  });
  registry.relate([&settings]() -> std::optional<std::string> {
    if (settings.cluster.connection_timeout < 2 * settings.cluster.heartbeat_interval)
      return "cluster.connection_timeout is less than twice cluster.heartbeat_interval";
    if (const auto& c = settings.cluster;
        c.tls_cert.empty() != c.tls_key.empty() || c.tls_cert.empty() != c.tls_ca.empty())
      return "cluster.tls_cert, cluster.tls_key and cluster.tls_ca are given together";
    if (settings.instances.count == 0 && settings.control.listen.empty())
      return "instances.count is 0 and control.listen is empty, so nobody can bring instances";
    if (settings.http.tls_cert.empty() != settings.http.tls_key.empty())
      return "http.tls_cert and http.tls_key are given together";
    for (const auto& origin : settings.http.cors_allowed_origins)
      if (!is_origin(origin))
        return "http.cors_allowed_origins: '" + origin + "' is no origin, such as https://app.example, nor *";
    if (settings.http.bodies_bytes_max < settings.http.body_bytes_max)
      return "http.bodies_bytes_max is less than http.body_bytes_max";
    if (settings.http.answers_bytes_max < settings.http.queued_bytes_max)
      return "http.answers_bytes_max is less than http.queued_bytes_max";
    if (settings.http.debug && !settings.trace.flight && settings.trace.file.empty())
      return "http.debug is on, and nothing is recorded that it could show: trace.flight is off, and there is no "
             "trace.file";
    return std::nullopt;
  });
  registry.relate([&settings]() -> std::optional<std::string> {
    if (settings.instances.isa != "auto" && !gpu::cpu::parse_isa(settings.instances.isa))
      return "instances.isa: '" + settings.instances.isa + "' is none of auto, amx, avx512_vnni, avx512, avx2, scalar";
    if (!is_address(settings.fabric.listen))
      return "fabric.listen: '" + settings.fabric.listen +
             "' is no address that other processes can be told, such as 127.0.0.1 or this machine's own";
    const auto six = [](const std::string& address) { return address.find(':') != std::string::npos; };
    if (settings.fabric.port != 0 && !transport::ucx::leaves_host_by_tcp_only(settings.fabric.transports))
      return "fabric.port: only where fabric.transports leave the host by tcp alone can the ports be fixed";
    const auto& told = settings.fabric.advertise;
    if (!told.empty() && (!is_address(told) || six(told) != six(settings.fabric.listen)))
      return "fabric.advertise: '" + told + "' is no address of the family of fabric.listen, " +
             settings.fabric.listen + ", that other processes can be told";
    if (settings.migration.lease < settings.migration.last_timeout)
      return "migration.lease is less than migration.last_timeout";
    if (settings.migration.copy_share > 0 && settings.migration.copy_share < 0.01)
      return "migration.copy_share is less than 0.01, so that requests may grow faster than they are copied: give "
             "0.01 to 1, or 0 to leave it to the device";
    if (settings.migration.lease < settings.migration.answer_timeout)
      return "migration.lease is less than migration.answer_timeout, so a destination would give up a source that "
             "still waits for its answer";
    if (const auto traps = parse_failpoints(settings.debug.failpoints); !traps)
      return "debug.failpoints: " + traps.error();
    if (settings.model.context_max == 1) return "model.context_max: 1 leaves no room for an answer; 0 or at least 2";
    const auto levels = runtime::log::level_filter::parse(settings.log.levels);
    if (const auto* wrong = std::get_if<runtime::log::level_error>(&levels)) return "log.levels: " + wrong->message;
    if (const auto wrong = wrong_component(std::get<runtime::log::level_filter>(levels)); !wrong.empty())
      return "log.levels: " + wrong;
    const auto& advertised = settings.control.advertise;
    in6_addr v6{};
    if (advertised.find_first_of("[]:/ ") != std::string::npos && ::inet_pton(AF_INET6, advertised.c_str(), &v6) != 1)
      return "control.advertise: '" + advertised + "' is no HOST; the port is that of control.listen";
    if (!parse_endpoint(settings.http.listen))
      return "http.listen: '" + settings.http.listen + "' is not HOST:PORT, such as 127.0.0.1:8000";
    if (!settings.control.listen.empty() && !parse_endpoint(settings.control.listen))
      return "control.listen: '" + settings.control.listen + "' is not HOST:PORT, such as 127.0.0.1:7070";
    return std::nullopt;
  });
}

std::optional<endpoint> parse_endpoint(const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return std::nullopt;
  auto host = text.substr(0, colon);
  if (host.front() == '[') {
    if (host.back() != ']' || host.size() < 3) return std::nullopt;
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string::npos) {
    return std::nullopt;
  }
  endpoint out;
  const auto* first = text.data() + colon + 1;
  const auto* last = text.data() + text.size();
  const auto [end, failure] = std::from_chars(first, last, out.port);
  if (first == last || failure != std::errc{} || end != last) return std::nullopt;
  out.host = std::move(host);
  return out;
}

bool is_address(const std::string& text) {
  in6_addr bytes{};
  const bool v4 = ::inet_pton(AF_INET, text.c_str(), &bytes) == 1;
  const bool v6 = !v4 && ::inet_pton(AF_INET6, text.c_str(), &bytes) == 1;
  return (v4 || v6) && !is_wildcard(text);
}

bool is_loopback(const std::string& host) {
  in6_addr v6{};
  if (host == "localhost" || (::inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6))) return true;
  in_addr address{};
  // All of it, or 127.0.0.1.example.com would be one.
  return ::inet_pton(AF_INET, host.c_str(), &address) == 1 && ntohl(address.s_addr) >> 24U == 127;
}

bool is_wildcard(const std::string& host) {
  in_addr v4{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return v4.s_addr == htonl(INADDR_ANY);
  in6_addr v6{};
  if (::inet_pton(AF_INET6, host.c_str(), &v6) != 1) return false;
  const bool v4_within =
      IN6_IS_ADDR_V4MAPPED(&v6) && std::all_of(v6.s6_addr + 12, v6.s6_addr + 16, [](auto b) { return b == 0; });
  return v4_within || IN6_IS_ADDR_UNSPECIFIED(&v6);
}

} // namespace godwit::main
