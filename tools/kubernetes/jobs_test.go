package kubernetes

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// testTrainingJobs applies the examples, whose controllers do not run here, and runs their jobs as Jobs: the pods are admitted, find nodes
// with GPUs and a volume, and end. The job that the pages of a promotion print runs, too.
func (c *cluster) testTrainingJobs(t *testing.T) {
	c.namespace(t, "ml")
	for _, file := range []string{"jobset.yaml", "trainjob.yaml"} {
		for _, one := range readObjects(t, filepath.Join(examples, file)) {
			require.NoError(t, c.apply(t.Context(), "ml", one))
		}
	}
	class := "local-nvme"
	_, err := c.client.CoreV1().PersistentVolumeClaims("ml").Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "ranker-checkpoints"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	set := jobOf(t, readObjects(t, filepath.Join(examples, "jobset.yaml"))[0], "spec", "replicatedJobs")
	train := trainJobOf(t, readObjects(t, filepath.Join(examples, "trainjob.yaml")))
	require.Equal(t, set.Template.Spec.SecurityContext, train.Template.Spec.SecurityContext)
	require.Equal(t, set.Template.Spec.Volumes, train.Template.Spec.Volumes)
	require.Equal(t, set.Template.Spec.Containers[0].VolumeMounts, train.Template.Spec.Containers[0].VolumeMounts)
	var promotion batchv1.Job
	decodeStrictly(t, readObjects(t, "../../cmd/penstock/ui/testdata/job.yaml")[0].Object, &promotion)
	for name, spec := range map[string]batchv1.JobSpec{"set": set, "train": train, "promotion": promotion.Spec} {
		job := batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
		_, err = c.client.BatchV1().Jobs("ml").Create(t.Context(), &job, metav1.CreateOptions{})
		require.NoError(t, err)
		until(t, c, "jobs", "ml", "", func(jobs map[string]*batchv1.Job) bool { return jobs[name].Status.Succeeded == *job.Spec.Completions })
	}
}

const examples = "../../deploy/kubernetes"

// jobOf returns the only job of the JobSet at a path of an object.
func jobOf(t *testing.T, object *unstructured.Unstructured, path ...string) batchv1.JobSpec {
	t.Helper()
	groups, _, err := unstructured.NestedSlice(object.Object, path...)
	require.NoError(t, err)
	require.Len(t, groups, 1)
	group, isMap := groups[0].(map[string]any)
	require.True(t, isMap)
	template, isMap := group["template"].(map[string]any)
	require.True(t, isMap)
	var job batchv1.JobTemplateSpec
	decodeStrictly(t, template, &job)
	return job.Spec
}

// trainJobOf returns the job of a TrainJob as Kubeflow Trainer makes it: that of its runtime, with the nodes, image, command, variables and
// resources of the trainer.
func trainJobOf(t *testing.T, objects []*unstructured.Unstructured) batchv1.JobSpec {
	t.Helper()
	require.Len(t, objects, 2)
	var train struct {
		Spec struct {
			RuntimeRef struct{ Name, Kind string }
			Trainer    struct {
				Image            string
				Command          []string
				NumNodes         int32
				Env              []corev1.EnvVar
				ResourcesPerNode corev1.ResourceRequirements
			}
		}
	}
	text, err := objects[1].MarshalJSON()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &train))
	require.Equal(t, objects[0].GetKind()+"/"+objects[0].GetName(), train.Spec.RuntimeRef.Kind+"/"+train.Spec.RuntimeRef.Name)
	job, trainer := jobOf(t, objects[0], "spec", "template", "spec", "replicatedJobs"), train.Spec.Trainer
	mode := batchv1.IndexedCompletion
	job.CompletionMode, job.Completions, job.Parallelism = &mode, &trainer.NumNodes, &trainer.NumNodes
	node := &job.Template.Spec.Containers[0]
	require.Equal(t, "node", node.Name)
	node.Image, node.Command, node.Resources = trainer.Image, trainer.Command, trainer.ResourcesPerNode
	node.Env = append(node.Env, trainer.Env...)
	return job
}

// decodeStrictly decodes an object. Fields that its kind does not have are errors.
func decodeStrictly(t *testing.T, from map[string]any, into any) {
	t.Helper()
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(from, into, true))
}

// testUnconfinedPods shows that the namespaces of the tests refuse pods that are not confined: those of the other tests are.
func (c *cluster) testUnconfinedPods(t *testing.T) {
	c.namespace(t, "unconfined")
	job := jobOf(t, readObjects(t, filepath.Join(examples, "jobset.yaml"))[0], "spec", "replicatedJobs")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "node"}, Spec: job.Template.Spec}
	pod.Spec.Containers[0].SecurityContext = nil
	_, err := c.client.CoreV1().Pods("unconfined").Create(t.Context(), pod, metav1.CreateOptions{})
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	require.ErrorContains(t, err, "restricted")
}
