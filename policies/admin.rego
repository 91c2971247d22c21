# Duties that are no tool calls: the directory, the audit record, settling an unknown effect, managing documents.
package placet.admin

import data.placet.subject

default decision := {"allowed": false, "visible": false, "code": "not_found", "reasons": ["default_deny"]}

decision := {"allowed": true, "visible": true, "code": null, "reasons": []} if {
	dutiful
	not own_effect
} else := {"allowed": false, "visible": true, "code": "permission_denied", "reasons": ["own_effect"]} if {
	dutiful
	own_effect
} else := {"allowed": false, "visible": false, "code": "not_found", "reasons": ["subject_inactive"]} if {
	not subject.active
} else := {"allowed": false, "visible": false, "code": "not_found", "reasons": ["other_tenant"]} if {
	not subject.owns_resource
} else := {"allowed": false, "visible": false, "code": "not_found", "reasons": ["role_grants_no_such_duty"]} if {
	not dutied
}

dutiful if {
	subject.active
	subject.owns_resource
	dutied
}

dutied if input.action.name in subject.duties

# Nobody says what became of the call they asked for themselves.
own_effect if {
	input.action.name == "effects.settle"
	input.resource.properties.requester == input.subject.id
}
