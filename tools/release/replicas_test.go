package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// Servers with a disk cache are a StatefulSet with a volume each, and others a Deployment. The volume is larger than cache_disk.
func TestServersWithACacheKeepTheirVolumes(t *testing.T) {
	r, err := render(valuesOf(t, "tokens"))
	require.NoError(t, err)
	require.Empty(t, r.stateful.Name)
	require.Equal(t, int32(3), *r.deployment.Spec.Replicas)
	require.Equal(t, intstr.FromInt32(0), *r.deployment.Spec.Strategy.RollingUpdate.MaxUnavailable)
	require.NotContains(t, strings.Join(r.container().Args, " "), "--cache-dir")

	r, err = render(valuesOf(t, "cache"))
	require.NoError(t, err)
	require.Empty(t, r.deployment.Name)
	require.Equal(t, r.headless.Name, r.stateful.Spec.ServiceName)
	require.Equal(t, appsv1.ParallelPodManagement, r.stateful.Spec.PodManagementPolicy)
	require.Equal(t, appsv1.RollingUpdateStatefulSetStrategyType, r.stateful.Spec.UpdateStrategy.Type)
	require.Len(t, r.stateful.Spec.VolumeClaimTemplates, 1)
	claim := r.stateful.Spec.VolumeClaimTemplates[0].Spec
	require.Equal(t, resource.MustParse("100Gi"), claim.Resources.Requests[corev1.ResourceStorage])
	require.Equal(t, "local-nvme", *claim.StorageClassName)
	require.Contains(t, r.container().Args, "--cache-disk=92160MiB")
	require.Contains(t, r.container().Args, "--cache-dir=/var/cache/penstock/columns", "the server refuses a folder that the group may read, as the root of the volume is")
	pod, _ := r.pod()
	require.Equal(t, corev1.FSGroupChangeOnRootMismatch, *pod.Spec.SecurityContext.FSGroupChangePolicy)
}

// One name resolves to all servers that are ready, and Prometheus finds each server once, since only the other service has the port.
func TestOneNameResolvesToAllServers(t *testing.T) {
	r, err := render(valuesOf(t, "tokens"))
	require.NoError(t, err)
	require.Equal(t, "loader-penstock-headless", r.headless.Name)
	require.False(t, r.headless.Spec.PublishNotReadyAddresses)
	require.Len(t, r.headless.Spec.Ports, 1)
	require.Equal(t, int32(imagePort), r.headless.Spec.Ports[0].Port, "connections lead straight to pods")
	require.Equal(t, r.service.Labels, r.headless.Labels)
	require.Contains(t, r.notes, "grpc+tls://loader-penstock-headless.ml.svc:8815")
	require.Contains(t, r.notes, "needs both names")
}

// Servers are spread over nodes, and a drain of nodes takes one at a time.
func TestServersDoNotEndTogether(t *testing.T) {
	for name, key := range map[string]string{"tokens": "pod-template-hash", "cache": ""} {
		values := valuesOf(t, name)
		r, err := render(values)
		require.NoError(t, err)
		require.Equal(t, intstr.FromInt32(1), *r.disruption.Spec.MaxUnavailable)
		require.Equal(t, policyv1.AlwaysAllow, *r.disruption.Spec.UnhealthyPodEvictionPolicy)
		pod, selector := r.pod()
		require.Len(t, pod.Spec.TopologySpreadConstraints, 1)
		spread := pod.Spec.TopologySpreadConstraints[0]
		if key == "" {
			require.Equal(t, "topology.kubernetes.io/zone", spread.TopologyKey, "of the values")
			continue
		}
		require.Equal(t, corev1.LabelHostname, spread.TopologyKey)
		require.Equal(t, selector, spread.LabelSelector.MatchLabels)
		require.Equal(t, []string{key}, spread.MatchLabelKeys)
	}
}

// KEDA scales what the chart has, by metrics that servers have, and the chart leaves the number of servers to it.
func TestServersAreScaledByTheirMetrics(t *testing.T) {
	r, err := render(valuesOf(t, "tokens"))
	require.NoError(t, err)
	require.Empty(t, r.scaling)

	r, err = render(valuesOf(t, "cache"))
	require.NoError(t, err)
	require.Nil(t, r.stateful.Spec.Replicas)
	require.Equal(t, map[string]any{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": r.stateful.Name}, at(r.scaling, "spec", "scaleTargetRef"))
	triggers, _ := at(r.scaling, "spec", "triggers").([]any)
	require.Len(t, triggers, 2)
	pages, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	for _, trigger := range triggers {
		one, _ := trigger.(map[string]any)
		require.Equal(t, "AverageValue", one["metricType"])
		require.Equal(t, map[string]any{"name": "prometheus"}, one["authenticationRef"])
		require.Equal(t, "false", at(one, "metadata", "ignoreNullValues"), "a Prometheus that has lost the servers must not remove them")
		query, _ := at(one, "metadata", "query").(string)
		names := regexp.MustCompile(`penstock_\w+`).FindAllString(query, -1)
		require.NotEmpty(t, names)
		for _, name := range names {
			require.Contains(t, string(pages), "| `"+name+"` |")
		}
		require.Equal(t, len(names), strings.Count(query, `{job="`+r.service.Name+`",namespace="ml"}`), query)
	}
}

// The examples of training jobs are the same job, and read from the address that the chart prints.
// make test-kubernetes checks their fields.
func TestTrainingJobsReadFromTheChartsServers(t *testing.T) {
	r, err := render(valuesOf(t, "tokens"))
	require.NoError(t, err)
	var set struct {
		Spec struct {
			ReplicatedJobs []struct{ Template batchv1.JobTemplateSpec }
		}
	}
	text, err := os.ReadFile("../../deploy/kubernetes/jobset.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &set))
	require.Len(t, set.Spec.ReplicatedJobs, 1)
	job := set.Spec.ReplicatedJobs[0].Template.Spec
	require.Equal(t, batchv1.IndexedCompletion, *job.CompletionMode)
	var train struct {
		Spec struct {
			Trainer struct {
				NumNodes int32
				Env      []corev1.EnvVar
			}
		}
	}
	text, err = os.ReadFile("../../deploy/kubernetes/trainjob.yaml")
	require.NoError(t, err)
	_, trainJob, found := strings.Cut(string(text), "\n---\n") // after its runtime
	require.True(t, found)
	require.NoError(t, yaml.Unmarshal([]byte(trainJob), &train))
	require.Equal(t, *job.Completions, train.Spec.Trainer.NumNodes)
	for _, env := range [][]corev1.EnvVar{job.Template.Spec.Containers[0].Env, train.Spec.Trainer.Env} {
		require.NotEmpty(t, env)
		require.Equal(t, "LOADERS", env[0].Name)
		require.Contains(t, r.notes, "connect to "+env[0].Value+", a name of all servers")
	}
}
