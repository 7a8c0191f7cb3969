// Package config reads the configuration of a server: a config file in YAML, the environment,
// and flags. Flags override the environment, which overrides the file, which overrides the
// defaults.
//
// Package dataset decodes the file, strictly; this package interprets the settings. All faults
// in the file, the environment and the flags are reported together, those in the file with
// their lines. The table Settings defines the settings: the file's server block, the
// variables and the flags all follow from it.
package config
