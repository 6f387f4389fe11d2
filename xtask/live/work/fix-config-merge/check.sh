set -e
git diff --exit-code "$(git rev-list --max-parents=0 HEAD)" -- load/parse_test.go merge/merge_test.go go.mod
cat > load/hidden_test.go <<'GO'
package load

import "testing"

func TestHidden(t *testing.T) {
	settings, err := Parse("a = x = y\nb==\n c =  d  \ne = \r\n#f = 1")
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"a": "x = y", "b": "=", "c": "d", "e": ""} {
		if found, ok := settings[name]; !ok || found != value {
			t.Errorf("%s is %q", name, found)
		}
	}
	if len(settings) != 4 {
		t.Errorf("found %v", settings)
	}
}
GO
cat > merge/hidden_test.go <<'GO'
package merge

import (
	"reflect"
	"testing"
)

func TestHidden(t *testing.T) {
	first := map[string]string{"a": "1", "b": "2"}
	second := map[string]string{"a": "", "c": "3"}
	third := map[string]string{"a": "4", "c": ""}
	found := Layers(first, second, third)
	if !reflect.DeepEqual(found, map[string]string{"a": "4", "b": "2"}) {
		t.Errorf("found %v", found)
	}
	found["d"] = "5"
	if len(first) != 2 || len(second) != 2 || len(third) != 2 || second["a"] != "" {
		t.Error("a layer was changed")
	}
	if alone := Layers(first); len(alone) != 2 {
		t.Errorf("found %v", alone)
	} else {
		alone["e"] = "6"
		if len(first) != 2 {
			t.Error("the result is the layer itself")
		}
	}
	if Layers() == nil || len(Layers(nil, second)) != 1 {
		t.Error("empty layers")
	}
}
GO
go vet ./...
go test ./...
