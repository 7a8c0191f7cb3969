package kubernetes

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

const (
	replicas = 4
	labels   = "app.kubernetes.io/name=penstock"
)

// One control plane, which takes some seconds to start, serves all tests, each in namespaces of its own.
func TestOnAControlPlane(t *testing.T) {
	c := startCluster(t)
	c.define(t)
	c.addVolumes(t)
	for _, path := range sets(t) {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		t.Run("ServersOf"+name, func(t *testing.T) { c.testServers(t, name) })
	}
	for _, name := range []string{"cache", "tokens"} {
		t.Run("AutoscalingOf"+name, func(t *testing.T) { c.testAutoscaling(t, name) })
	}
	t.Run("Combinations", c.testCombinations)
	t.Run("UnknownFieldsAreRefused", c.testUnknownFields)
	t.Run("UnconfinedPodsAreRefused", c.testUnconfinedPods)
	t.Run("TrainingJobs", c.testTrainingJobs)
}

// sets returns the files of values of the chart.
func sets(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(chartFolder, "ci", "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, found)
	return found
}

// addVolumes adds volumes for the claims of the pods, which no provisioner makes here.
func (c *cluster) addVolumes(t *testing.T) {
	t.Helper()
	for i := range 8 * replicas {
		_, err := c.client.CoreV1().PersistentVolumes().Create(t.Context(), &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("volume-%d", i)},
			Spec: corev1.PersistentVolumeSpec{
				Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Ti")},
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: "local-nvme",
				PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: fmt.Sprintf("/volumes/%d", i)}},
			},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
}

// testServers installs the chart with a set of values, replaces its servers by those of another image, and drains a node.
func (c *cluster) testServers(t *testing.T, name string) {
	c.namespace(t, name)
	values := valuesOf(t, name)
	values["replicas"] = replicas
	objects := rendered(t, name, values)
	for _, one := range objects {
		require.NoError(t, c.apply(t.Context(), name, one))
	}
	stateful := slices.ContainsFunc(objects, func(one *unstructured.Unstructured) bool { return one.GetKind() == "StatefulSet" })
	kind := "Deployment"
	if stateful {
		kind = "StatefulSet"
	}
	c.scale(t, kind, name, replicas)
	c.waitForServers(t, name)
	c.testUpdate(t, name, stateful, values)
	c.testDrain(t, name)
}

// scale sets the number of servers, which KEDA would do where the chart leaves it out.
func (c *cluster) scale(t *testing.T, kind, namespace string, number int) {
	t.Helper()
	to, err := c.resource(appsv1.SchemeGroupVersion.WithKind(kind), namespace)
	require.NoError(t, err)
	_, err = to.Patch(t.Context(), "loader-penstock", types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, number), metav1.PatchOptions{}, "scale")
	require.NoError(t, err)
}

// waitForServers waits until all servers are ready, and the headless service lists all of them. They are spread as the chart requires.
func (c *cluster) waitForServers(t *testing.T, namespace string) {
	t.Helper()
	until(t, c, "pods", namespace, labels, func(pods map[string]*corev1.Pod) bool {
		hosts, zones := map[string]bool{}, map[byte]bool{}
		for _, pod := range pods {
			if name := pod.Spec.NodeName; name != "" {
				hosts[name], zones[name[len(name)-1]%2] = true, true
			}
		}
		return len(pods) == replicas && len(ready(pods)) == replicas && len(hosts) > 1 && len(zones) == 2
	})
	until(t, c, "endpointslices", namespace, labels, func(slices map[string]*discoveryv1.EndpointSlice) bool {
		addresses := map[string]bool{}
		for _, slice := range slices {
			if slice.Labels[discoveryv1.LabelServiceName] != "loader-penstock-headless" {
				continue
			}
			for _, endpoint := range slice.Endpoints {
				if *endpoint.Conditions.Ready {
					addresses[endpoint.Addresses[0]] = true
				}
			}
		}
		return len(addresses) == replicas
	})
}

// ready returns the pods that are ready and not told to end.
func ready(pods map[string]*corev1.Pod) []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range pods {
		if pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}) {
			out = append(out, pod)
		}
	}
	return out
}

// testUpdate installs the next version of the chart with other values: the API server accepts each change. At no time is more than one
// server of a StatefulSet away, and none of a Deployment is: its new server is ready first.
func (c *cluster) testUpdate(t *testing.T, namespace string, stateful bool, values map[string]any) {
	least := replicas
	if stateful {
		least--
	}
	maps.Copy(values, map[string]any{
		"image": map[string]any{"repository": "penstock", "tag": "next"}, "memoryMiB": 512, "cpu": "500m", "drainSeconds": 5, "maxUnavailable": 1,
		"files": map[string]any{"secret": "other"}, "serviceAccount": map[string]any{"name": "default"}, "podLabels": map[string]any{"team": "search"},
		"service": map[string]any{"type": "NodePort", "port": 8816},
	})
	apply := func() {
		for _, one := range (release{name: "loader", namespace: namespace, version: "9.0.0"}).objects(t, values) {
			require.NoError(t, c.apply(t.Context(), namespace, one))
		}
	}
	fewest, begin := replicas, sync.OnceFunc(apply)
	until(t, c, "pods", namespace, labels, func(pods map[string]*corev1.Pod) bool {
		begin() // after the pods were listed, so that each change is seen
		serving := ready(pods)
		fewest = min(fewest, len(serving))
		updated := slices.DeleteFunc(serving, func(pod *corev1.Pod) bool { return pod.Spec.Containers[0].Image != "penstock:next" })
		return len(updated) == replicas && len(pods) == replicas
	})
	require.Equal(t, least, fewest)
	c.waitForServers(t, namespace)
}

// testDrain evicts a server while no node takes another one, as when nodes are drained: the next one may not be evicted until the first one
// is replaced.
func (c *cluster) testDrain(t *testing.T, namespace string) {
	until(t, c, "poddisruptionbudgets", namespace, labels, func(budgets map[string]*policyv1.PodDisruptionBudget) bool {
		budget := budgets["loader-penstock"]
		return budget != nil && budget.Status.CurrentHealthy == replicas && budget.Status.DisruptionsAllowed == 1
	})
	c.cordon(t, true)
	defer c.cordon(t, false)
	pods, err := c.client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: labels})
	require.NoError(t, err)
	evict := func(pod corev1.Pod) error {
		return c.client.PolicyV1().Evictions(namespace).Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: namespace}})
	}
	require.NoError(t, evict(pods.Items[0]))
	err = evict(pods.Items[1])
	require.True(t, apierrors.IsTooManyRequests(err), "%v", err)
	c.cordon(t, false)
	c.waitForServers(t, namespace)
}

// cordon says whether nodes take new pods.
func (c *cluster) cordon(t *testing.T, closed bool) {
	t.Helper()
	for i := range nodes {
		patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, closed)
		_, err := c.client.CoreV1().Nodes().Patch(t.Context(), fmt.Sprintf("node-%d", i), types.MergePatchType, patch, metav1.PatchOptions{})
		require.NoError(t, err)
	}
}

// testAutoscaling turns autoscaling on for servers that run: as many run afterwards. An update keeps the number that KEDA has set.
func (c *cluster) testAutoscaling(t *testing.T, name string) {
	namespace := "scaled-" + name
	c.namespace(t, namespace)
	values := valuesOf(t, name)
	values["replicas"] = replicas
	kind := ""
	upgrade := func(enabled bool) {
		values["autoscaling"] = map[string]any{"enabled": enabled, "prometheus": "http://prometheus.monitoring.svc:9090"}
		for _, one := range (release{name: "loader", namespace: namespace, cluster: c.settings}).objects(t, values) {
			require.NoError(t, c.apply(t.Context(), namespace, one))
			if podOf(t, one) != nil {
				kind = one.GetKind()
			}
		}
	}
	upgrade(false)
	upgrade(true)
	require.EqualValues(t, replicas, c.wanted(t, kind, namespace))
	c.scale(t, kind, namespace, replicas+1)
	upgrade(true)
	require.EqualValues(t, replicas+1, c.wanted(t, kind, namespace))
}

// wanted returns the number of servers that a Deployment or StatefulSet shall have.
func (c *cluster) wanted(t *testing.T, kind, namespace string) int64 {
	t.Helper()
	from, err := c.resource(appsv1.SchemeGroupVersion.WithKind(kind), namespace)
	require.NoError(t, err)
	found, err := from.Get(t.Context(), "loader-penstock", metav1.GetOptions{})
	require.NoError(t, err)
	number, _, err := unstructured.NestedInt64(found.Object, "spec", "replicas")
	require.NoError(t, err)
	return number
}

// The API server refuses fields that a kind does not have, of the kinds whose definitions come from modules, too: what it accepts is checked.
func (c *cluster) testUnknownFields(t *testing.T) {
	c.namespace(t, "wrong")
	objects := rendered(t, "wrong", valuesOf(t, "tokens"))
	objects = append(objects, rendered(t, "wrong", valuesOf(t, "cache"))...)
	objects = append(objects, readObjects(t, filepath.Join(examples, "jobset.yaml"))...)
	objects = append(objects, readObjects(t, filepath.Join(examples, "trainjob.yaml"))...)
	refused := map[string]bool{}
	for _, one := range objects {
		if _, has := one.Object["spec"]; !has {
			continue
		}
		require.NoError(t, unstructured.SetNestedField(one.Object, "x", "spec", "fieldOfNoKind"))
		err := c.apply(t.Context(), "wrong", one)
		require.ErrorContains(t, err, "fieldOfNoKind", one.GetKind())
		refused[one.GetKind()] = true
	}
	for _, kind := range []string{"Deployment", "StatefulSet", "Service", "PodDisruptionBudget", "ScaledObject", "ServiceMonitor", "PrometheusRule", "NetworkPolicy", "JobSet", "TrainingRuntime", "TrainJob"} {
		require.Contains(t, refused, kind)
	}
}
