# May this tool call run? Everything must hold for it to be allowed; the first thing that does not is the reason given.
package placet.authz

import data.placet.budget
import data.placet.commit
import data.placet.manifest
import data.placet.routes
import data.placet.subject
import data.placet.terms
import data.tables

default decision := {
	"effect": "deny",
	"code": "permission_denied",
	"reasons": ["default_deny"],
	"risk": "critical_system",
	"obligations": {},
}

decision := {
	"effect": settled.effect,
	"code": null,
	"reasons": sort(settled.reasons),
	"risk": terms.risk,
	"obligations": terms.obligations,
	"spending": budget.spending,
	"concurrency": budget.concurrency,
} if {
	permitted
	settled := outcome
} else := {
	"effect": "deny",
	"code": refusal.code,
	"reasons": sort(refusal.reasons),
	"risk": terms.risk,
	"obligations": {},
}

default permitted := false

permitted if {
	subject.active
	subject.owns_resource
	routes.includes(input.action.name)
	manifest.covers
	subject.granted(input.action.name)
	terms.declaration_known
	facts_hold
	terms.amount_known
	budget.calls_left
	budget.spend_left
}

# Named for the reasons, as they cannot say `not` of a call with a reference in it.
routed if routes.includes(input.action.name)

granted if subject.granted(input.action.name)

# Exactly one of the three, each with its own condition: none applies when terms are undefined.
outcome := {"effect": "allow", "reasons": terms.reasons} if {
	terms.agreement.asks == false
} else := {"effect": "require_approval", "reasons": terms.reasons} if {
	terms.agreement.asks == true
	input.action.properties.stage == "propose"
} else := {"effect": "allow", "reasons": {"approvals_carry"}} if {
	terms.agreement.asks == true
	input.action.properties.stage == "commit"
	commit.carried
}

refusal := {"code": "permission_denied", "reasons": {"subject_inactive"}} if {
	not subject.active
} else := {"code": "tool_not_allowed", "reasons": {"route_excludes_tool"}} if {
	not routed
} else := {"code": "tool_not_allowed", "reasons": {"manifest_excludes_tool"}} if {
	not manifest.covers
} else := {"code": "permission_denied", "reasons": {"role_grants_no_such_tool"}} if {
	not granted
} else := {"code": "permission_denied", "reasons": {"other_tenant"}} if {
	not subject.owns_resource
} else := {"code": "permission_denied", "reasons": {"declaration_unknown"}} if {
	not terms.declaration_known
} else := {"code": "permission_denied", "reasons": missing_facts} if {
	count(missing_facts) > 0
} else := {"code": "permission_denied", "reasons": {"amount_unknown"}} if {
	not terms.amount_known
} else := {"code": "limit_reached", "reasons": {"tool_calls_used_up"}} if {
	not budget.calls_left
} else := {"code": "limit_reached", "reasons": {"spend_used_up"}} if {
	not budget.spend_left
} else := {"code": "permission_denied", "reasons": commit.objections} if {
	input.action.properties.stage == "commit"
	count(commit.objections) > 0
} else := {"code": "permission_denied", "reasons": {"default_deny"}}

# What a tool of the table needs to be true of its resource.
missing_facts contains concat("_", ["not", fact]) if {
	some fact in tables.tools[input.action.name].facts
	not holds(fact)
}

default facts_hold := false

facts_hold if not terms.entry.facts

facts_hold if {
	every fact in terms.entry.facts { holds(fact) }
}

holds("readable") if input.resource.properties.readable == true

holds("served") if {
	some fact in ["served_by", "owner"]
	serves(input.resource.properties[fact])
}

holds("served") if {
	some fact in ["served_by", "owner"]
	some server in input.resource.properties[fact]
	serves(server)
}

serves(server) if server == input.subject.id

serves(server) if server in input.subject.properties.teams
