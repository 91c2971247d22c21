# On which terms a call may run: its risk, the money it moves, whose agreement it needs.
package placet.terms

import data.tables

default entry := {}

entry := tables.tools[input.action.name]

declared := input.action.properties.risk

# The table and the tool's own declaration both speak; the graver one counts.
default risk := "critical_system"

risk := entry.risk if {
	tables.risks[entry.risk].rank >= tables.risks[declared].rank
} else := declared if {
	tables.risks[declared].rank > 0
}

default declaration_known := false

declaration_known if {
	tables.risks[declared].rank > 0
	input.action.properties.sensitivity in ["read", "sensitive_read", "write"]
	input.action.properties.stage in ["propose", "commit"]
}

# What the tables ask for before circumstances are looked at.
ordinary_agreement := entry.agreement if {
	entry.risk == risk
} else := tables.limits.unlisted_write.agreement if {
	input.action.properties.sensitivity == "write"
	not tables.agreements[tables.risks[risk].agreement].asks
} else := tables.risks[risk].agreement

# A write that would run at once, but may rest on text nobody vouches for, waits for a person.
influenced if {
	input.action.properties.sensitivity == "write"
	tables.limits.influence.gate == true
	not tables.agreements[ordinary_agreement].asks
	not vouched_for
}

vouched_for if input.context.influence.untrusted_documents == []

gated_read if {
	input.action.properties.sensitivity == "sensitive_read"
	tables.limits.sensitive_read.gate == true
	not tables.agreements[ordinary_agreement].asks
}

agreement_name := tables.limits.influence.agreement if {
	influenced
} else := tables.limits.sensitive_read.agreement if {
	gated_read
} else := ordinary_agreement

agreement := tables.agreements[agreement_name]

reasons contains agreement.reason

reasons contains "untrusted_influence" if influenced

reasons contains "above_limit" if raised

obligations := object.union(
	agreement.obligations,
	{"approvals": approvals, "mask": tables.risks[risk].mask, "open_limit": open_limit},
)

# How many of these one requester may have waiting at a time: people who are asked too often stop reading.
open_limit := tables.limits.open_proposals.tools[input.action.name] if {
	tables.limits.open_proposals.tools[input.action.name]
} else := tables.limits.open_proposals.each

# A second person above the limit, and whenever the amount cannot be compared with it.
raised if {
	agreement.approvals_above_limit
	not below_limit
}

below_limit if {
	amount <= tables.limits.second_person_above.amount
	object.get(input.resource.properties, "currency", house_currency) == house_currency
}

house_currency := tables.limits.second_person_above.currency

approvals := agreement.approvals_above_limit if {
	raised
} else := agreement.obligations.approvals if {
	agreement.asks
} else := 1

amount := number_of(input.context.args[entry.amount.arg])

amount := number_of(input.resource.properties[entry.amount.fact])

# A tool that moves money says how much, or it does not run.
default amount_known := false

amount_known if not entry.amount

amount_known if amount >= 0

# Money is a number or decimal text. Engines disagree on comparing text with numbers, so nothing else is compared.
number_of(value) := value if is_number(value)

number_of(value) := to_number(value) if {
	is_string(value)
	regex.match(`^[0-9]{1,12}(\.[0-9]{1,6})?$`, value)
}
