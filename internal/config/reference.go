package config

import _ "embed"

//go:embed reference.toml
var referenceTOML string

// ReferenceTOML is a file that documents every key: unit, direction, price. As it stands it sets the defaults, and can
// be taken as a first configuration; keys whose default depends on the host or on another key are commented out.
func ReferenceTOML() string { return referenceTOML }
