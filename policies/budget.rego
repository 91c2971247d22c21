# What a session may still use. Counted by the caller, judged here; an approved call is no longer measured by it.
package placet.budget

import data.placet.manifest
import data.placet.terms
import data.tables

default calls_left := false

calls_left if unmetered

calls_left if {
	calls := measured(input.context.budget.tool_calls)
	calls.used < calls.limit
}

default spend_left := false

spend_left if unmetered

spend_left if {
	spend := measured(input.context.budget.spend)
	total := spend.used + costs
	total <= spend.limit
	within_manifest(total)
}

# Engines disagree on comparing what is not a number, so that is compared with nothing.
measured(meter) := meter if {
	is_number(meter.used)
	is_number(meter.limit)
}

within_manifest(_) if manifest.agentless

within_manifest(total) if total <= manifest.entry.spend

default costs := 0

costs := terms.amount if terms.entry.amount.spends == true

unmetered if input.action.properties.stage == "commit"

unmetered if {
	manifest.agentless
	object.get(input.context, "budget", null) == null
}

# What the executor has to count before the call goes on: race-safe there, limited here.
default spending := null

spending := {"amount": costs, "per_run": run_limit, "per_day": tables.limits.tenant.spend_per_day} if costs > 0

default run_limit := null

run_limit := manifest.entry.spend if {
	session_limit > manifest.entry.spend
} else := session_limit

session_limit := input.context.budget.spend.limit if is_number(input.context.budget.spend.limit)

default concurrency := null

concurrency := tables.limits.tenant.concurrency
