package config

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/policy"
)

// ParsePolicy parses the text of a policy file, which names tables of the configuration's catalogs.
// If the file has faults, it returns Invalid with their lines.
func (c *Config) ParsePolicy(text []byte) (*policy.Policy, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var root, more yaml.Node
	switch err := decoder.Decode(&root); {
	case errors.Is(err, io.EOF):
		return nil, fault.New(fault.Invalid, "the file is empty").WithRemedy("a policy that allows nothing is: rules: []")
	case err != nil:
		return nil, fault.New(fault.Invalid, "the file is not YAML: %w", err)
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, fault.New(fault.Invalid, "the file has more than one YAML document")
	}
	return decode.Policy(&root, policy.Names{Catalogs: slices.Sorted(maps.Keys(c.Catalogs)), Default: c.DefaultCatalog()})
}
