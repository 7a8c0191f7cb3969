package decode

import (
	"slices"
	"strings"
)

// MeantField returns the query field for which another program uses the given name, or
// "".
func MeantField(name string) string {
	for _, f := range queryFields() {
		if slices.Contains(f.also, strings.ToLower(name)) {
			return f.name
		}
	}
	return ""
}

// MeantSetting returns the server setting for which another program uses the given name,
// or "".
func MeantSetting(name string) string {
	for setting, words := range settingsMeant() {
		if slices.Contains(words, strings.ToLower(name)) {
			return setting
		}
	}
	return ""
}

// settingsMeant returns names that other programs use for the server's settings.
func settingsMeant() map[string][]string {
	return map[string][]string{
		"listen":    {"port", "host", "address", "bind", "addr"},
		"memory":    {"mem", "ram", "memory_limit", "budget", "max_memory"},
		"log_level": {"logging", "log", "verbose"},
		"spool":     {"tmp", "temp_dir", "tmp_dir", "scratch"},
	}
}
