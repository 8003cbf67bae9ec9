#include "CTape.h"
