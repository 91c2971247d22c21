# An approved call is about to run: do the people who approved still carry it, by the facts of now?
package placet.commit

import data.placet.eligibility
import data.placet.terms

case := {
	"tenant": input.subject.properties.tenant,
	"requester": input.subject.id,
	"risk": terms.risk,
	"obligations": terms.obligations,
	"authors": input.context.influence.authors,
}

objections contains concat("_", ["approver", code]) if {
	some approver in input.context.approvals
	some code in eligibility.objections(approver, case)
}

objections contains "quorum_not_met" if {
	count({approver.id | some approver in input.context.approvals}) < terms.obligations.approvals
}

default carried := false

carried if {
	every approver in input.context.approvals { eligibility.eligible(approver, case) }
	count({approver.id | some approver in input.context.approvals}) >= terms.obligations.approvals
}
