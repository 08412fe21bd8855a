// Command pulumi-resource-kubernetes serves the published Kubernetes provider. Its own main package embeds two generated
// files that the module does not carry, so the build places them here, made from the module's schema.json and
// terraform-mapping.json.
package main

import (
	_ "embed"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version"
)

//go:embed schema-embed.json
var schema []byte

//go:embed terraform-mapping-embed.json
var mapping []byte

func main() {
	provider.Serve("kubernetes", version.Version, schema, mapping)
}
