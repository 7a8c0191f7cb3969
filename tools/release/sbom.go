package main

import (
	"archive/zip"
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// bill is a software bill of materials, as CycloneDX 1.6 defines it.
type bill struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Version    int         `json:"version"`
	About      billAbout   `json:"metadata"`
	Components []component `json:"components"`
}

// billAbout is what a bill is of.
type billAbout struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

// component is a library, or the product.
type component struct {
	Type       string     `json:"type"`
	Name       string     `json:"name"`
	Version    string     `json:"version,omitempty"`
	PURL       string     `json:"purl,omitempty"`
	Licenses   []licensed `json:"licenses,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

// licensed is a license by its SPDX expression.
type licensed struct {
	Expression string `json:"expression"`
}

// property is a fact about a component.
type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// sbom writes what the programs, the wheels and the image contain, and what the wheels need.
func (c *checkout) sbom(ctx context.Context, platforms []platform) error {
	found := map[string]component{}
	add := func(of component) { found[of.PURL] = of }
	for _, p := range platforms {
		built, err := c.build(ctx, p)
		if err != nil {
			return err
		}
		add(component{Type: "library", Name: "std", Version: strings.TrimPrefix(built.build.GoVersion, "go"), PURL: "pkg:golang/std@" + strings.TrimPrefix(built.build.GoVersion, "go")})
		for _, m := range libraries(built.build) {
			add(component{Type: "library", Name: m.Path, Version: m.Version, PURL: "pkg:golang/" + m.Path + "@" + m.Version, Properties: []property{{"go:sum", m.Sum}}})
		}
		needed, err := requirements(filepath.Join(c.out, "wheels", c.wheelName(p)))
		if err != nil {
			return err
		}
		for _, one := range needed {
			add(one)
		}
	}
	const roots = "golang.org/x/crypto/x509roots/fallback"
	version, err := output(ctx, filepath.Join(c.root, "tools/release"), "go", "list", "-m", "-f", "{{.Version}}", roots)
	if err != nil {
		return err
	}
	add(component{Type: "data", Name: roots, Version: version, PURL: "pkg:golang/" + roots + "@" + version, Properties: []property{{"penstock:in", "the image, as certificate authorities"}}})
	out := bill{Format: "CycloneDX", Spec: "1.6", Version: 1, About: billAbout{Timestamp: c.time.Format("2006-01-02T15:04:05Z"), Component: component{
		Type: "application", Name: "penstock", Version: c.version, PURL: "pkg:generic/penstock@" + c.version, Licenses: []licensed{{"Apache-2.0"}},
		Properties: []property{{"penstock:commit", cmp.Or(c.commit, "unknown")}},
	}}}
	for _, one := range found {
		out.Components = append(out.Components, one)
	}
	slices.SortFunc(out.Components, func(a, b component) int { return cmp.Compare(a.PURL, b.PURL) })
	text, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return err
	}
	return c.write(fmt.Sprintf("penstock-%s.cdx.json", c.version), append(text, '\n'))
}

// requirement matches a line of a wheel's metadata that names a package which is always needed.
var requirement = regexp.MustCompile(`^Requires-Dist: ([A-Za-z0-9._-]+)([^;]*)$`)

// requirements returns the packages that a wheel needs, without those of extras.
func requirements(wheel string) ([]component, error) {
	archive, err := zip.OpenReader(wheel)
	if err != nil {
		return nil, err
	}
	defer archive.Close() //nolint:errcheck // it was only read
	for _, f := range archive.File {
		if matched, _ := path.Match("*.dist-info/METADATA", f.Name); !matched {
			continue
		}
		text, err := f.Open()
		if err != nil {
			return nil, err
		}
		defer text.Close() //nolint:errcheck // it was only read
		return requirementsOf(text)
	}
	return nil, errors.New(wheel + " has no metadata")
}

func requirementsOf(metadata io.Reader) ([]component, error) {
	var out []component
	lines := bufio.NewScanner(metadata)
	for lines.Scan() && lines.Text() != "" {
		if m := requirement.FindStringSubmatch(lines.Text()); m != nil {
			out = append(out, component{Type: "library", Name: m[1], PURL: "pkg:pypi/" + strings.ToLower(m[1]), Properties: []property{{"penstock:versions", m[2]}}})
		}
	}
	return out, lines.Err()
}
