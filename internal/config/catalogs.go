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

// common are the properties of every catalog.
func common() []string { return []string{"type", "uri", "warehouse", "name", "pin_tags.keep"} }

// elsewhere are properties that mean something to other programs and nothing here; one
// that ends in a dot begins those of any number. They are named so that a block which
// works there can be pasted, and so that none of them is taken for a slip of the hand.
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

// refusedProperties are those without which a catalog would be asked in another way than
// was meant, with what to write in their place.
func refusedProperties() map[string]string {
	return map[string]string{
		"auth.":              "use token, credential with oauth2-server-uri, header.Authorization, or rest.sigv4-enabled",
		"encryption.kms-":    "read a copy of the tables that is not encrypted",
		"scan-planning-mode": "leave it out: Penstock plans for itself",
	}
}

// begins says whether a name of a list is the property, or the beginning of it.
func begins(names []string, property string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return name == property || strings.HasSuffix(name, ".") && strings.HasPrefix(property, name)
	})
}

// catalog takes a catalog of the file: with the variables of the environment in place of
// their names, and with a word on what has no meaning here.
func (c *Config) catalog(found dataset.Catalog, env func(string) (string, bool)) []fault.Field {
	var faults []fault.Field
	put := func(name string, line int, value *string) {
		if form := withDefault.FindStringSubmatch(*value); form != nil {
			faults = append(faults, fault.Field{
				Field: place(found.Name, name), Message: fmt.Sprintf("variables have no defaults here: write ${%s}, and set it where Penstock starts", form[1]), Line: line,
			})
		}
		text, missing := expand(*value, env)
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
		c.unread(found, *p, &faults)
	}
	c.Catalogs[found.Name] = found
	return faults
}

// place is a property as errors name it.
func place(catalog, property string) string { return "catalogs." + catalog + "." + property }

func refused(of dataset.Catalog, p dataset.Property) (fault.Field, bool) {
	for name, remedy := range refusedProperties() {
		if strings.HasPrefix(p.Name, name) {
			return fault.Field{Field: place(of.Name, p.Name), Message: "is not served by this version; " + remedy, Line: p.Line}, true
		}
	}
	return fault.Field{}, false
}

// unread looks at a property that nobody reads: one that is nearly the name of another is
// taken for that, misspelt, and refused; others are warned of.
func (c *Config) unread(of dataset.Catalog, p dataset.Property, faults *[]fault.Field) {
	names := slices.Concat(common(), s3.Properties(), icebergcat.Properties(of.Type))
	if begins(names, p.Name) || strings.HasPrefix(p.Name, "auth.") {
		return
	}
	nearest := fault.Nearest(p.Name, names)
	if nearest != "" && !begins(elsewhere(), p.Name) {
		*faults = append(*faults, fault.Field{Field: place(of.Name, p.Name), Message: "unknown field", Nearest: nearest, Line: p.Line})
		return
	}
	c.Warnings = append(c.Warnings, fault.Redact(fmt.Sprintf("%s (line %d) has no meaning here", place(of.Name, p.Name), p.Line)))
}

// withDefault is a variable in a form of shells: with what to take where it is not set.
var withDefault = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)[^A-Za-z0-9_}][^}]*\}`)

// expand puts the variables of the environment in place of ${NAME}, and returns those that
// there are none of. Other dollars stand for themselves.
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

// Properties are a catalog's own, by name.
func Properties(of dataset.Catalog) map[string]string {
	out := make(map[string]string, len(of.Properties))
	for _, p := range of.Properties {
		out[p.Name] = p.Value
	}
	return out
}
