/// A value of an entity's objects: at a key of theirs, or inside of objects that are nested in them.
struct ModelLeaf {
    enum Form {
        case attribute
        /// Stored as JSON, and why.
        case json(String)
        case toOne(ObjectShape)
        case toMany(ObjectShape)
        /// A dictionary of objects.
        case map(ObjectShape, isShared: Bool)
    }

    let path: [String]
    let property: PropertyShape
    var form: Form

    /// The shape of a relationship's objects, or that of the dictionary with them.
    var objects: ObjectShape? {
        switch form {
        case .attribute, .json: nil
        case .toOne(let shape), .toMany(let shape), .map(let shape, _): shape
        }
    }

    var isMap: Bool { if case .map = form { true } else { false } }
}
