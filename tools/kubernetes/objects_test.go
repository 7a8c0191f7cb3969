package kubernetes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	yamldecoder "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/yaml"
)

const chartFolder = "../../deploy/chart"

// valuesOf reads one of the chart's sets of values.
func valuesOf(t *testing.T, name string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(chartFolder, "ci", name+".yaml"))
	require.NoError(t, err)
	var values map[string]any
	require.NoError(t, yaml.Unmarshal(text, &values))
	return values
}

// release is a release of the chart.
type release struct {
	name, namespace string
	version         string       // "": that of the chart
	cluster         *rest.Config // on which Helm looks objects up; nil: none, as for helm template
}

// rendered returns the objects of the release `loader`.
func rendered(t *testing.T, namespace string, values map[string]any) []*unstructured.Unstructured {
	t.Helper()
	return release{name: "loader", namespace: namespace}.objects(t, values)
}

// objects returns the objects of the chart in the order of helm install: services and secrets before pods.
func (r release) objects(t *testing.T, values map[string]any) []*unstructured.Unstructured {
	t.Helper()
	chart, err := loader.LoadDir(chartFolder)
	require.NoError(t, err)
	if r.version != "" {
		chart.Metadata.Version, chart.Metadata.AppVersion = r.version, r.version
	}
	options := chartutil.ReleaseOptions{Name: r.name, Namespace: r.namespace, IsInstall: true}
	all, err := chartutil.ToRenderValuesWithSchemaValidation(chart, values, options, chartutil.DefaultCapabilities.Copy(), false)
	require.NoError(t, err)
	with := engine.Engine{}
	if r.cluster != nil {
		with = engine.New(r.cluster)
	}
	with.Strict = true
	files, err := with.Render(chart, all)
	require.NoError(t, err)
	var out []*unstructured.Unstructured
	for name, text := range files {
		if strings.HasSuffix(name, ".yaml") {
			objects, err := decode(strings.NewReader(text))
			require.NoError(t, err, name)
			out = append(out, objects...)
		}
	}
	slices.SortFunc(out, func(a, b *unstructured.Unstructured) int {
		return strings.Compare(a.GetKind()+a.GetName(), b.GetKind()+b.GetName())
	})
	return out
}

// readObjects reads the objects of a file of YAML.
func readObjects(t *testing.T, path string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	out, err := decode(bytes.NewReader(text))
	require.NoError(t, err, path)
	return out
}

// decode reads documents of YAML.
func decode(from io.Reader) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for decoder := yamldecoder.NewYAMLOrJSONDecoder(from, 4096); ; {
		one := &unstructured.Unstructured{}
		switch err := decoder.Decode(&one.Object); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, err
		case len(one.Object) > 0:
			out = append(out, one)
		}
	}
}

// apply applies an object as kubectl apply --server-side --validate=strict does: unknown and repeated fields are errors. With
// metav1.DryRunAll, the API server checks it and keeps nothing.
func (c *cluster) apply(ctx context.Context, namespace string, object *unstructured.Unstructured, dryRun ...string) error {
	to, err := c.resource(object.GroupVersionKind(), namespace)
	if err != nil {
		return err
	}
	text, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	options := metav1.PatchOptions{FieldManager: "tests", FieldValidation: metav1.FieldValidationStrict, DryRun: dryRun}
	_, err = to.Patch(ctx, object.GetName(), types.ApplyPatchType, text, options)
	if err != nil {
		return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// resource returns the client of a kind, in a namespace if it has some.
func (c *cluster) resource(kind schema.GroupVersionKind, namespace string) (dynamic.ResourceInterface, error) {
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return c.objects.Resource(mapping.Resource), nil
	}
	return c.objects.Resource(mapping.Resource).Namespace(namespace), nil
}

// namespace creates a namespace that enforces the Pod Security Standard "restricted", and waits for its service account, without which no pod
// is admitted.
func (c *cluster) namespace(t *testing.T, name string) {
	t.Helper()
	_, err := c.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	until(t, c, "serviceaccounts", name, "", func(accounts map[string]*corev1.ServiceAccount) bool { return accounts["default"] != nil })
}

// until waits until the objects of a kind in a namespace, by name, are as wanted. It sees every state of them that the API server has had
// since it began, in order.
func until[T any, P interface {
	*T
	runtime.Object
	metav1.Object
}](t *testing.T, c *cluster, kind, namespace, labels string, wanted func(map[string]P) bool,
) {
	t.Helper()
	ctx, cancel := context.WithTimeout(c.alive, deadline)
	defer cancel()
	resource, err := c.mapper.ResourceFor(schema.GroupVersionResource{Resource: kind})
	require.NoError(t, err)
	client := c.objects.Resource(resource).Namespace(namespace)
	list, err := client.List(ctx, metav1.ListOptions{LabelSelector: labels})
	require.NoError(t, err)
	objects := map[string]P{}
	read := func(object *unstructured.Unstructured) P {
		one := P(new(T))
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, one))
		return one
	}
	for i := range list.Items {
		objects[list.Items[i].GetName()] = read(&list.Items[i])
	}
	if wanted(objects) {
		return
	}
	from := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		options.LabelSelector = labels
		return client.Watch(ctx, options)
	}}
	_, err = watchtools.Until(ctx, list.GetResourceVersion(), from, func(event watch.Event) (bool, error) {
		object, isObject := event.Object.(*unstructured.Unstructured)
		if !isObject {
			return false, fmt.Errorf("the watch sent %v", event.Object)
		}
		delete(objects, object.GetName())
		if event.Type != watch.Deleted {
			objects[object.GetName()] = read(object)
		}
		return wanted(objects), nil
	})
	if err != nil {
		var states []string
		for name, one := range objects {
			text, _ := yaml.Marshal(one)
			states = append(states, name+":\n"+string(text))
		}
		require.NoError(t, errors.Join(err, context.Cause(ctx)), "%s in %s: %s", kind, namespace, strings.Join(states, "\n"))
	}
}
