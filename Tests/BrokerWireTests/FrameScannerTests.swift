import BrokerWire
import Testing
