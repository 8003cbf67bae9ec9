import unittest

from ..models import identity_of, identity_right, model_key, model_points, same_identity

MODEL = {"entities": {
    "Person": {"identity": "number", "attributes": {"number": {"type": "integer64", "key": "id"}, "name": "string"},
               "relationships": {"phones": {"entity": "Phone", "toMany": True, "owned": True},
                                 "team": {"entity": "PersonTeam", "key": [["work", "team"]]},
                                 "stats": {"entity": "Stat", "toMany": True}, "geo": {"entity": "Geo"}}},
    "PersonTeam": {"identity": ["code", "site"], "attributes": {"code": "string", "site": "string"}},
    "Phone": {"attributes": {"city": "string"}}, "Stat": {}, "Geo": {}}}


class ModelTests(unittest.TestCase):
    """Whether a model is the expected one."""

    def test_the_key_of_a_property_is_its_name_unless_the_model_has_another(self):
        self.assertEqual(model_key(MODEL, "Person", "number"), ["id"])
        self.assertEqual(model_key(MODEL, "Person", "name"), ["name"])
        self.assertEqual(model_key(MODEL, "Person", "team"), ["work.team"])

    def test_an_identity_is_a_list_of_attributes(self):
        self.assertEqual([identity_of(MODEL, name) for name in ("Person", "PersonTeam", "Phone", "Nobody")],
                         [["number"], ["code", "site"], [], []])

    def test_an_identity_is_the_same_by_its_keys_in_any_order(self):
        self.assertTrue(same_identity(MODEL, "Person", ["id"]))
        self.assertTrue(same_identity(MODEL, "PersonTeam", ["site", "code"]))
        self.assertFalse(same_identity(MODEL, "PersonTeam", ["code"]))
        self.assertFalse(same_identity(MODEL, "PersonTeam", ["code", "site", "name"]))
        self.assertFalse(same_identity(MODEL, "Person", ["name"]))

    def test_the_key_of_a_map_is_an_attribute_that_records_do_not_have(self):
        self.assertTrue(same_identity(MODEL, "Person", ["@key"], own={"id"}))
        self.assertFalse(same_identity(MODEL, "Person", ["@key"], own={"number"}))

    def test_an_identity_is_right_by_an_alternative_and_where_none_is_expected(self):
        self.assertTrue(identity_right(MODEL, {"entity": "Person", "identity": ["name"], "alternatives": [["id"]]}, set()))
        self.assertFalse(identity_right(MODEL, {"entity": "Person", "identity": ["name"]}, set()))
        self.assertTrue(identity_right(MODEL, {"entity": "Phone", "identity": None}, set()))
        self.assertFalse(identity_right(MODEL, {"entity": "Person", "identity": None}, set()))
        self.assertFalse(identity_right(MODEL, {"entity": "Nobody", "identity": None}, set()))

    def test_a_model_has_the_entities_owned_objects_columns_and_maps_that_are_expected(self):
        expected = {"entities": {"Team": ["code", "site"]}, "owned": ["Person.phone"], "columns": ["size"], "maps": ["stats"]}
        self.assertEqual(model_points(MODEL, expected), (4, 4, []))

    def test_what_a_model_lacks_is_named(self):
        expected = {"entities": {"Team": ["code"], "Club": ["id"]}, "owned": ["Person.geo"], "columns": ["geo"], "maps": ["notes"]}
        self.assertEqual(model_points(MODEL, expected), (0, 5, ["Team by code", "Club by id", "Person.geo owned", "geo as columns", "notes as a map"]))
