package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// module is a Go module that has definitions of kinds (CRDs) among its files.
type module struct {
	name, version, sum string
	files              []string
}

// modules are those of the kinds that the chart and the examples use.
func modules() []module {
	return []module{
		{
			"github.com/kedacore/keda/v2", "v2.21.0", "h1:R6z2HZvstK4RLUMxroNACzBj74xGxt3kG59b5Xc+Xps=",
			[]string{"config/crd/bases/keda.sh_scaledobjects.yaml"},
		},
		{
			"github.com/prometheus-operator/prometheus-operator", "v0.85.0", "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
			[]string{
				"example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
				"example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
			},
		},
		{
			"github.com/kubeflow/trainer/v2", "v2.2.0", "h1:whChZckEtycLo1UKH/M0hiNaCUozbLvf9JrgmMv+TAg=",
			[]string{
				"manifests/base/crds/trainer.kubeflow.org_trainjobs.yaml",
				"manifests/base/crds/trainer.kubeflow.org_trainingruntimes.yaml",
				"manifests/base/crds/trainer.kubeflow.org_clustertrainingruntimes.yaml",
			},
		},
	}
}

// folder downloads the module, unless Go's cache has it, and returns its files. Their digest must be that of this file.
func (m module) folder(t *testing.T) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", m.name+"@"+m.version)
	command.Dir, command.Stderr = t.TempDir(), os.Stderr
	text, err := command.Output()
	require.NoError(t, err, "%s: %s", m.name, text)
	var found struct{ Dir, Sum string }
	require.NoError(t, json.Unmarshal(text, &found))
	require.Equal(t, m.sum, found.Sum, m.name)
	return found.Dir
}

// define makes the API server serve the kinds of the modules, and JobSet.
func (c *cluster) define(t *testing.T) {
	t.Helper()
	var definitions []*unstructured.Unstructured
	for _, m := range modules() {
		folder := m.folder(t)
		for _, file := range m.files {
			definitions = append(definitions, readObjects(t, filepath.Join(folder, file))...)
		}
	}
	definitions = append(definitions, jobSetDefinition(t, definitions[len(definitions)-1]))
	for _, one := range definitions {
		require.NoError(t, c.apply(t.Context(), "", one), one.GetName())
	}
	ctx, cancel := context.WithTimeout(c.alive, deadline)
	defer cancel()
	for _, one := range definitions {
		group, _, _ := unstructured.NestedString(one.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(one.Object, "spec", "names", "kind")
		require.NoError(t, poll(ctx, func(context.Context) error {
			c.mapper.Reset()
			_, err := c.mapper.RESTMapping(schema.GroupKind{Group: group, Kind: kind})
			return err
		}), kind)
	}
}

// jobSetDefinition makes the definition of JobSet from that of Kubeflow's runtimes: their template is a JobSet, whose schema is part of theirs.
func jobSetDefinition(t *testing.T, runtimes *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	require.Equal(t, "clustertrainingruntimes.trainer.kubeflow.org", runtimes.GetName())
	versions, _, err := unstructured.NestedSlice(runtimes.Object, "spec", "versions")
	require.NoError(t, err)
	first, isMap := versions[0].(map[string]any)
	require.True(t, isMap)
	spec, found, err := unstructured.NestedMap(first, "schema", "openAPIV3Schema", "properties", "spec", "properties", "template", "properties", "spec")
	require.NoError(t, errors.Join(err, map[bool]error{false: errors.New("the runtimes have no template")}[found]))
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{
			"name": "jobsets.jobset.x-k8s.io",
			// The group belongs to the Kubernetes project, which asks for a link to the review.
			"annotations": map[string]any{"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/jobset"},
		},
		"spec": map[string]any{
			"group": "jobset.x-k8s.io", "scope": "Namespaced", "names": map[string]any{"kind": "JobSet", "plural": "jobsets", "singular": "jobset"},
			"versions": []any{map[string]any{
				"name": "v1alpha2", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{"spec": spec}}},
			}},
		},
	}}
}
