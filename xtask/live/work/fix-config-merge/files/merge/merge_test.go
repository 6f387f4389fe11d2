package merge

import (
	"reflect"
	"testing"
)

func TestLaterLayersWin(t *testing.T) {
	found := Layers(map[string]string{"a": "1", "b": "2"}, map[string]string{"b": "3"})
	if !reflect.DeepEqual(found, map[string]string{"a": "1", "b": "3"}) {
		t.Errorf("found %v", found)
	}
}

func TestLayersStayAsTheyAre(t *testing.T) {
	defaults := map[string]string{"port": "80"}
	Layers(defaults, map[string]string{"port": "81", "name": "web"})
	if !reflect.DeepEqual(defaults, map[string]string{"port": "80"}) {
		t.Errorf("defaults are now %v", defaults)
	}
}

func TestEmptyValueRemoves(t *testing.T) {
	found := Layers(map[string]string{"a": "1", "b": "2"}, map[string]string{"b": ""})
	if names := Names(found); !reflect.DeepEqual(names, []string{"a"}) {
		t.Errorf("found %v", names)
	}
}
