package main

import (
	"context"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/sigv4"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/s3"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/restcat"
	"github.com/penstock/penstock/loader/dataset"
)

// openCatalog opens one catalog of the config file.
func (e *engine) openCatalog(ctx context.Context, c *config.Config, o dataset.Catalog, files store.Store) (*icebergcat.Catalog, error) {
	properties := config.Properties(o)
	if _, _, err := s3.FromProperties(properties); err != nil {
		return nil, err
	}
	return icebergcat.Open(ctx, icebergcat.Options{
		Name: o.Stored, Type: o.Type, URI: o.URI, Warehouse: o.Warehouse, BaseDir: c.Dir(), Properties: properties,
		Store: files, S3: e.s3Stores(ctx), Calls: e.calls, Timeout: c.Server.StorageTimeout, Clock: time.Now,
		MaxMetadata: c.Server.MaxMetadata, Budget: e.budget, Manifests: e.manifests,
		Sign: func(how restcat.Signing) (restcat.Signer, error) { return signer(ctx, how) },
	})
}

// signer returns a signer of requests to a catalog, with the catalog's own keys or else the
// server's, which may differ from the keys for storage.
func signer(ctx context.Context, how restcat.Signing) (restcat.Signer, error) {
	properties := map[string]string{}
	for name, value := range how.Properties {
		if of, ok := strings.CutPrefix(name, "rest."); ok {
			properties["s3."+of] = value
		} else if strings.HasPrefix(name, "client.") {
			properties[name] = value
		}
	}
	settings, _, err := s3.FromProperties(properties)
	if err != nil {
		return nil, err
	}
	keys, region, err := settings.Identity(context.WithoutCancel(ctx))
	if err != nil {
		return nil, err
	}
	if how.Region != "" {
		region = how.Region
	}
	if region == "" || keys == nil {
		return nil, fault.InvalidField("rest.signing-region", "requests cannot be signed without a region").
			WithRemedy("write rest.signing-region, or client.region")
	}
	return sigv4.New(keys, region, how.Service, time.Now), nil
}

// s3Stores returns the constructor of stores of files on S3.
func (e *engine) s3Stores(ctx context.Context) icebergcat.S3 {
	ctx = context.WithoutCancel(ctx) // stores are made when their first file is opened, long after the start
	return func(properties map[string]string, keys icebergcat.Keys) (store.Store, error) {
		settings, _, err := s3.FromProperties(properties)
		if err != nil {
			return nil, err
		}
		if keys != nil {
			settings.Credentials = vended(keys)
		}
		made, err := s3.New(ctx, s3.Options{
			Settings: settings, Clock: time.Now,
			Observe: func(r s3.Request) {
				if observe := e.requests.Load(); observe != nil {
					(*observe)(r)
				}
			},
			Reserve: func(ctx context.Context, bytes int64) (func(), error) {
				held, err := e.budget.ReserveFor(ctx, "the head of a file", bytes)
				if err != nil {
					return nil, err
				}
				return held.Release, nil
			},
		})
		if err != nil {
			return nil, err
		}
		return made, nil
	}
}

// vended adapts keys that a catalog vends to the SDK.
func vended(keys icebergcat.Keys) aws.CredentialsProvider {
	return aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
		key, err := keys(ctx)
		if err != nil {
			return aws.Credentials{}, fault.Op(err, "ask the catalog for keys")
		}
		return aws.Credentials{
			AccessKeyID: key.AccessKeyID, SecretAccessKey: key.SecretAccessKey, SessionToken: key.SessionToken,
			CanExpire: !key.Expires.IsZero(), Expires: key.Expires, Source: "catalog",
		}, nil
	})
}
