package s3

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
)

// name is the Kind's name.
const name = "s3"

// The properties of a vended credential, as the Iceberg REST specification names them.
const (
	propertyKeyID   = "s3.access-key-id"
	propertySecret  = "s3.secret-access-key"
	propertySession = "s3.session-token"
)

// schemes are those of locations on S3.
func schemes() []string { return []string{"s3", "s3a", "s3n"} }

// Kind describes S3 to catalogs. Its properties have the names that PyIceberg gives them.
func Kind(env store.Environment) *store.Kind {
	identity := []string{"s3.anonymous", "client.anonymous"}
	for _, suffix := range []string{"access-key-id", "secret-access-key", "session-token", "role-arn", "role-session-name", "profile-name"} {
		identity = append(identity, "s3."+suffix, "client."+suffix)
	}
	return &store.Kind{
		Name:       name,
		Schemes:    schemes(),
		Example:    "S3 or a store that speaks its protocol (s3://bucket/path)",
		Properties: Properties(),
		Prefixes:   []string{"s3.", "client."},
		Credential: []string{propertyKeyID, propertySecret, propertySession},
		Expiry:     []string{"s3.session-token-expires-at-ms", "expiration-time"},
		Identity:   identity,
		Check: func(properties map[string]string) error {
			_, _, err := FromProperties(properties)
			return err
		},
		Open: func(ctx context.Context, properties map[string]string, credentials store.Credentials) (store.Store, error) {
			settings, _, err := FromProperties(properties)
			if err != nil {
				return nil, err
			}
			if credentials != nil {
				settings.Credentials = vended(credentials)
			}
			return New(ctx, Options{Settings: settings, Environment: env})
		},
	}
}

// vended adapts credentials that a catalog vends to the SDK.
func vended(credentials store.Credentials) aws.CredentialsProvider {
	return aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
		c, err := credentials(ctx)
		if err != nil {
			return aws.Credentials{}, fault.Op(err, "ask the catalog for keys")
		}
		return aws.Credentials{
			AccessKeyID: c.Properties[propertyKeyID], SecretAccessKey: c.Properties[propertySecret], SessionToken: c.Properties[propertySession],
			CanExpire: !c.Expires.IsZero(), Expires: c.Expires, Source: "catalog",
		}, nil
	})
}
