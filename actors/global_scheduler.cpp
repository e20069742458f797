#include <godwit/actors/global_scheduler.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace godwit::actors {

global_scheduler::global_scheduler(runtime::actor_context context, scheduler_options options)
    : actor(context), options_(std::move(options)),
      dispatcher_(protocols::make_dispatcher(options_.policies.dispatch)) {
  if (!dispatcher_) throw std::invalid_argument("no dispatch policy is called " + options_.policies.dispatch);
}

runtime::behavior_of<scheduler_interface> global_scheduler::make_behavior() {
  return {[this](protocols::load_report& report) {
            // The last report of an instance that died may come after the news of its death.
            const auto* entry = topology_.find(report.instance);
            if (entry != nullptr && entry->ready && entry->generation == report.generation) dispatcher_->report(report);
          },
          [this](dispatch_query& query) {
            auto picked = dispatcher_->pick({query.prompt_tokens, query.priority});
            const auto* entry = picked ? topology_.find(picked->instance) : nullptr;
            if (entry != nullptr && entry->ready) {
              auto decision = dispatch_decision{entry->instance, entry->generation};
              decision.why = std::move(picked->why);
              return decision;
            }
            auto none = dispatch_decision{};
            const auto reports = dispatcher_->reports();
            none.overloaded = std::any_of(reports.begin(), reports.end(), [](const auto& r) { return r.ready; });
            return none;
          },
          [this](topology& news) {
            if (news.version <= topology_.version) return;
            for (const auto& before : topology_.instances) // with a process that left
              if (news.find(before.instance) == nullptr) dispatcher_->remove(before.instance);
            for (const auto& entry : news.instances)
              if (!entry.ready)
                dispatcher_->remove(entry.instance);
              else // idle, until its first report says otherwise; one that is known already is newer
                dispatcher_->report({entry.instance, entry.generation, 0, true});
            topology_ = std::move(news);
          },
          [this](status_query&) {
            scheduler_view view;
            view.scheduling.dispatch_policy = options_.policies.dispatch;
            view.reports = dispatcher_->reports();
            return view;
          },
          [](scheduling_policies&) {}};
}

} // namespace godwit::actors
