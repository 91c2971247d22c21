# Who asks: the directory's facts of this moment, as the input carries them, and what their roles grant.
package placet.subject

import data.tables

default active := false

active if {
	input.subject.properties.active == true
	is_string(input.subject.id)
	input.subject.id != ""
	is_string(input.subject.properties.tenant)
	input.subject.properties.tenant != ""
}

granted(tool) if {
	some role in input.subject.properties.roles
	tool in tables.grants[role].tools
}

granted_tools contains tool if {
	some role in input.subject.properties.roles
	some tool in tables.grants[role].tools
}

duties contains duty if {
	some role in input.subject.properties.roles
	some duty in tables.grants[role].admin
}

default reads_knowledge := false

reads_knowledge if {
	some role in input.subject.properties.roles
	tables.grants[role].knowledge == true
}

# Nothing to touch, or something of the subject's own tenant. A resource that does not say whose it is, is nobody's.
default owns_resource := false

owns_resource if input.resource.type == "none"

owns_resource if input.resource.properties.tenant == input.subject.properties.tenant
