package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store/s3"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/dataset"
)

// everyCatalog returns the properties that every catalog has.
func everyCatalog() []string {
	return []string{"type", "uri", "warehouse", "name", "pin_tags.keep", "writes.namespaces", "allowed_prefixes", "file_sizes"}
}

// elsewhere returns properties of other programs, so that their configuration can be pasted
// and none of these properties is mistaken for a misspelled one. A name that ends in a dot
// stands for all properties that begin with it.
func elsewhere() []string {
	return []string{
		"py-io-impl", "io-impl", "py-catalog-impl", "catalog-impl", "cache-enabled", "clients", "echo", "pool_pre_ping",
		"init_catalog_tables", "init-catalog-tables", "snapshot-loading-mode", "rest-page-size", "rest-metrics-reporting-enabled",
		"view-endpoints-supported", "downcast-ns-timestamp-to-us-on-write", "default-namespace", "metrics-reporter-impl",
		"s3.signer.", "s3.resolve-region", "s3.retry-strategy-impl", "s3.sse.", "s3.checksum-enabled", "s3.acceleration-enabled", "s3.dualstack-enabled",
		"s3.delete-enabled", "s3.write.", "s3.multipart.", "s3.staging-dir", "s3.preload-client-enabled", "s3.cross-region-access-enabled",
		"s3.chunked-encoding-enabled", "s3.compat-mode", "s3.session-token-expires-at-ms", "client.factory", "client.assume-role.", "http-client.",
		"table-default.", "table-override.", "ssl.", "jdbc.", "sql.", "glue.", "dynamodb.", "hive.", "adls.", "gcs.", "hdfs.", "hf.", "token-refresh-enabled",
		"token-exchange-enabled", "rest.auth.", "rest.tls.",
	}
}

// refusedProperties returns properties that cannot be ignored, because the catalog would be
// used in another way than intended, with remedies.
func refusedProperties() map[string]string {
	return map[string]string{
		"auth.":              "use token, credential with oauth2-server-uri, header.Authorization, or rest.sigv4-enabled",
		"encryption.kms-":    "read a copy of the tables that is not encrypted",
		"scan-planning-mode": "leave it out: Penstock plans for itself",
	}
}

// begins reports whether a list of names contains a property, or a prefix of the property that ends
// in a dot.
func begins(names []string, property string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return name == property || strings.HasSuffix(name, ".") && strings.HasPrefix(property, name)
	})
}

// catalog adds a catalog of the file, with environment variables expanded, and returns its
// faults.
func (c *Config) catalog(found dataset.Catalog, origin Origin) []fault.Field {
	var faults []fault.Field
	put := func(name string, line int, value *string) {
		if form := withDefault.FindStringSubmatch(*value); form != nil {
			faults = append(faults, fault.Field{
				Field: place(found.Name, name), Message: fmt.Sprintf("variables have no defaults here: write ${%s}, and set it where Penstock starts", form[1]), Line: line,
			})
		}
		text, missing := expand(*value, origin.Env)
		for _, m := range missing {
			faults = append(faults, fault.Field{
				Field: place(found.Name, name), Message: "the environment has no variable " + m + "; set it where Penstock starts", Line: line,
			})
		}
		*value = text
	}
	put("uri", 0, &found.URI)
	put("warehouse", 0, &found.Warehouse)
	put("name", 0, &found.Stored)
	found.AllowedPrefixes = slices.Clone(found.AllowedPrefixes)
	for i := range found.AllowedPrefixes {
		put("allowed_prefixes", 0, &found.AllowedPrefixes[i])
	}
	found.Properties = slices.Clone(found.Properties)
	given := map[string]bool{}
	for i := range found.Properties {
		p := &found.Properties[i]
		if given[p.Name] {
			faults = append(faults, fault.Field{Field: place(found.Name, p.Name), Message: "is given twice, by itself and within an object; keep one", Line: p.Line})
		}
		given[p.Name] = true
		put(p.Name, p.Line, &p.Value)
		if f, ok := refused(found, *p); ok {
			faults = append(faults, f)
		}
		if f, ok := c.unread(found, *p, origin.Storage); ok {
			faults = append(faults, f)
		}
	}
	c.Catalogs[found.Name] = found
	return faults
}

// place returns the name of a property in errors.
func place(catalog, property string) string { return "catalogs." + catalog + "." + property }

func refused(of dataset.Catalog, p dataset.Property) (fault.Field, bool) {
	for name, remedy := range refusedProperties() {
		if strings.HasPrefix(p.Name, name) {
			return fault.Field{Field: place(of.Name, p.Name), Message: "is not supported by this version; " + remedy, Line: p.Line}, true
		}
	}
	return fault.Field{}, false
}

// unread checks a property. If nothing reads the property, but its name is close to that of a
// property that is read, unread returns a fault. For other properties that nothing reads, it adds a
// warning.
func (c *Config) unread(of dataset.Catalog, p dataset.Property, storage []string) (fault.Field, bool) {
	if storage == nil {
		storage = s3.Properties()
	}
	names := slices.Concat(everyCatalog(), storage, icebergcat.Properties(of.Type))
	if begins(names, p.Name) || strings.HasPrefix(p.Name, "auth.") {
		return fault.Field{}, false
	}
	nearest := fault.Nearest(p.Name, names)
	if nearest != "" && !begins(elsewhere(), p.Name) {
		return fault.Field{Field: place(of.Name, p.Name), Message: "unknown field", Nearest: nearest, Line: p.Line}, true
	}
	c.Warnings = append(c.Warnings, fault.Redact(fmt.Sprintf("%s (line %d) has no meaning here", place(of.Name, p.Name), p.Line)))
	return fault.Field{}, false
}

// withDefault matches a variable with a default, in the syntax of shells.
var withDefault = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)[^A-Za-z0-9_}][^}]*\}`)

// expand replaces each ${NAME} by the environment variable NAME, and also returns the names of
// variables that are not set. Other dollar signs are kept.
func expand(text string, env func(string) (string, bool)) (out string, missing []string) {
	out = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*\}`).ReplaceAllStringFunc(text, func(name string) string {
		name = name[2 : len(name)-1]
		if env != nil {
			if value, ok := env(name); ok {
				return value
			}
		}
		missing = append(missing, name)
		return ""
	})
	return out, missing
}

// Properties returns a catalog's properties by name.
func Properties(of dataset.Catalog) map[string]string {
	out := make(map[string]string, len(of.Properties))
	for _, p := range of.Properties {
		out[p.Name] = p.Value
	}
	return out
}
