package ui

import (
	_ "embed"
	"regexp"
	"strings"
	"text/template"

	"github.com/penstock/penstock/internal/jsontext"
)

// jobText is the template of a job of Kubernetes. Its values are JSON, which is YAML.
//
//go:embed templates/job.yaml
var jobText string

// The memory budget of a job and the memory of its container, in MiB, which are as those of the chart.
const (
	jobBudget    = 4096
	jobContainer = jobBudget*5/4 + 256
)

// unfit are the characters that names of objects cannot have.
var unfit = regexp.MustCompile(`[^a-z0-9]+`)

// maxJobName is the maximum number of characters of the name of a dataset in that of a job, whose pods have longer names.
const maxJobName = 30

// jobManifest returns a job of Kubernetes that promotes entries of a dataset.
func jobManifest(dataset string, entries []string, version string) string {
	name := unfit.ReplaceAllString(strings.ToLower(dataset), "-")
	name = strings.Trim("promote-"+name[:min(len(name), maxJobName)], "-")
	var b strings.Builder
	inJSON := template.FuncMap{"json": func(v any) string { return string(jsontext.Of(v)) }}
	err := template.Must(template.New("job").Funcs(inJSON).Parse(jobText)).Execute(&b, map[string]any{
		"Name": name, "Image": "penstock:" + version, "Budget": jobBudget, "Container": jobContainer,
		"Args": append([]string{"promote", "--config=/etc/penstock/config/penstock.yaml", "--progress=json", "--", dataset}, entries...),
	})
	if err != nil {
		return err.Error() // a fault of the template, which a test finds
	}
	return b.String()
}
