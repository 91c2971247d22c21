# What a person may read at all; the search narrows by these principals inside its query.
package placet.knowledge

import data.placet.subject

default scope := {"visible": false, "reasons": ["default_deny"]}

scope := {
	"visible": true,
	"reasons": [],
	"principals": {
		"tenant": input.subject.properties.tenant,
		"user": input.subject.id,
		"roles": sort({role | some role in input.subject.properties.roles}),
		"teams": sort({team | some team in input.subject.properties.teams}),
		"clearance": object.get(input.subject.properties, "clearance", 0),
	},
} if {
	subject.active
	subject.reads_knowledge
} else := {"visible": false, "reasons": ["role_grants_no_knowledge"]} if {
	subject.active
} else := {"visible": false, "reasons": ["subject_inactive"]}
