// Package config reads what a server is told: a config file in YAML, the
// environment, and flags. Flags win over the environment, the environment
// over the file, the file over the defaults.
//
// Package dataset decodes the file, strictly; what the settings mean is decided
// here. Every fault of file, environment and flags is reported at once, and
// those of the file carry their line. One table, Settings, says what can be set:
// the file's server block, the variables and the flags are made from it.
package config
