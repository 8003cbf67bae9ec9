/// A value of a unique list that an object outside of a step's rows has, and that an object of the step claims.
struct OccupiedValue {
    struct Value: Hashable {
        let entity: Int
        let attributes: [Int]
        let key: StoredKey

        var list: [Int] { [entity] + attributes }
    }

    let value: Value
    /// The entity of the claiming object, and the offset of the record that claims the value.
    let claimant: Int
    let claimedAt: Int
}
